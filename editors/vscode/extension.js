// Starts `amp-lint server` for Python files, and hands on to it what the settings say.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

const SECTION = "amp-lint";
const ASKED = ["preview", "unsafeFixes"]; // what the server understands; the rest is for this file
const FIX_ALL = "source.fixAll.amp-lint";

let client;

function wishes(settings) {
  const given = settings ?? {};
  return Object.fromEntries(ASKED.filter((key) => key in given).map((key) => [key, given[key]]));
}

// What the Python extension knows of environments; undefined without it, or if it does not start.
async function pythonEnvironments() {
  try {
    return (await vscode.extensions.getExtension("ms-python.python")?.activate())?.environments;
  } catch {
    return undefined;
  }
}

// The environment that the Python extension has chosen, then those that lie in the folders.
async function environments() {
  const chosen = (await pythonEnvironments())?.getActiveEnvironmentPath?.()?.path;
  const isPython = chosen && path.basename(chosen).startsWith("python"); // or the folder of it
  const folders = (vscode.workspace.workspaceFolders ?? []).map((folder) => folder.uri.fsPath);
  const beside = folders.flatMap((folder) => [path.join(folder, ".venv"), path.join(folder, "venv")]);
  return [...(chosen ? [isPython ? path.dirname(path.dirname(chosen)) : chosen] : []), ...beside];
}

// What starts the server: a bare name is looked for in the project's environment before the path.
// A folder that is not trusted names no program.
async function command() {
  const [name, ...args] = vscode.workspace.getConfiguration(SECTION).get("server.command");
  if (vscode.workspace.isTrusted && name === path.basename(name)) {
    const scripts = [path.join("bin", name), path.join("Scripts", `${name}.exe`)];
    const places = (await environments()).flatMap((at) => scripts.map((script) => path.join(at, script)));
    return [places.find((place) => fs.existsSync(place)) ?? name, ...args];
  }
  return [name, ...args];
}

async function start() {
  const [program, ...args] = await command();
  client = new LanguageClient(
    SECTION,
    "amp-lint",
    { command: program, args },
    {
      documentSelector: [{ scheme: "file", language: "python" }],
      synchronize: { configurationSection: SECTION },
      initializationOptions: wishes(vscode.workspace.getConfiguration(SECTION)),
      middleware: {
        workspace: {
          configuration: async (params, token, next) => {
            const found = await next(params, token);
            return Array.isArray(found) ? found.map(wishes) : found;
          },
        },
      },
    },
  );
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    const settings = "Open Settings";
    const chosen = await vscode.window.showErrorMessage(
      `amp-lint: \`${[program, ...args].join(" ")}\` cannot be started: ${error?.message ?? error}. ` +
        'Install it by `pip install "amp-lint[server]"` in the environment of the project, or say where it is.',
      settings,
    );
    if (chosen === settings) {
      await vscode.commands.executeCommand("workbench.action.openSettings", "amp-lint.server.command");
    }
  }
}

async function stop() {
  const old = client;
  client = undefined;
  await old?.stop();
}

async function restart() {
  await stop();
  await start();
}

async function fixAll() {
  await vscode.commands.executeCommand("editor.action.codeAction", { kind: FIX_ALL, apply: "first" });
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("amp-lint.restart", restart),
    vscode.commands.registerCommand("amp-lint.fixAll", fixAll),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("amp-lint.server.command")) {
        return restart();
      }
    }),
  );
  const changed = (await pythonEnvironments())?.onDidChangeActiveEnvironmentPath?.(restart);
  context.subscriptions.push(...(changed ? [changed] : []));
  await start();
}

module.exports = { activate, deactivate: stop };

// Starts `amp-lint server` for Python files, and hands on to it what the settings say.
"use strict";

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

async function start() {
  const [command, ...args] = vscode.workspace.getConfiguration(SECTION).get("server.command");
  client = new LanguageClient(
    SECTION,
    "amp-lint",
    { command, args },
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
      `amp-lint: \`${[command, ...args].join(" ")}\` cannot be started: ${error.message}. ` +
        'Install it by `pip install "amp-lint[server]"`, or say where it is.',
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
  await start();
}

module.exports = { activate, deactivate: stop };

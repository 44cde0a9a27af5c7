-- What somebody does in Neovim, and what they see: written as JSON where $SEEN says.

local function wait(what, holds)
  assert(vim.wait(60000, holds, 50), what)
end

-- before 0.8 there was no vim.lsp.start: what it does for one buffer
vim.lsp.start = vim.lsp.start or function(config)
  vim.lsp.buf_attach_client(0, vim.lsp.start_client(config))
end
vim.fs = vim.fs or {
  find = function() return {} end,
  dirname = function() return vim.fn.getcwd() end,
}

local function drive()
  local seen = { version = vim.version() }
  wait("findings", function() return #vim.diagnostic.get(0) > 0 end)
  local found = vim.diagnostic.get(0)[1]
  seen.finding = { found.code, found.lnum, found.col, found.message }
  vim.api.nvim_win_set_cursor(0, { found.lnum + 1, found.col })
  local params = vim.lsp.util.make_position_params(0, "utf-16")
  for _, answer in pairs(vim.lsp.buf_request_sync(0, "textDocument/hover", params, 60000)) do
    seen.hover = answer.result.contents.value
  end
  vim.cmd("write")
  seen.modified = vim.bo.modified
  wait("no findings", function() return #vim.diagnostic.get(0) == 0 end)
  vim.fn.writefile({ vim.fn.json_encode(seen) }, vim.env.SEEN)
end

vim.api.nvim_create_autocmd("VimEnter", {
  nested = true, -- that of saving runs too
  callback = function()
    local ran, error = pcall(drive)
    if not ran then
      vim.fn.writefile({ vim.fn.json_encode({ error = tostring(error) }) }, vim.env.SEEN)
    end
    vim.cmd("qall!")
  end,
})

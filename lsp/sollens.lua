-- sollens for Neovim 0.11 and newer. With this repository on 'runtimepath': vim.lsp.enable('sollens'). Settings of your own:
-- vim.lsp.config('sollens', { init_options = { settings = { hardware = 'l4' } } }); tables are merged. See docs/editors.md.

--- Runs a command of the server on the buffer; `done` gets its result.
local function run(client, bufnr, command, arguments, done)
  local request = { title = command, command = 'sollens.server.' .. command, arguments = arguments }
  client:exec_cmd(request, { bufnr = bufnr }, function(err, result)
    if err then
      vim.notify('sollens: ' .. err.message, vim.log.levels.ERROR)
    elseif done then
      done(result)
    end
  end)
end

--- Shows a text in a window of its own.
local function show(text)
  vim.cmd.vnew()
  vim.bo.buftype, vim.bo.bufhidden, vim.bo.swapfile = 'nofile', 'wipe', false
  vim.api.nvim_buf_set_lines(0, 0, -1, false, vim.split(text, '\n'))
  vim.bo.modifiable = false
end

--- Opens a page in the browser: one HTML file that loads nothing.
local function browse(html)
  local file = vim.fn.tempname() .. '.html'
  vim.fn.writefile(vim.split(html, '\n'), file)
  vim.ui.open(file)
end

--- The Python of an activated environment, of the project, or on PATH.
local function interpreter(root)
  local candidates = { vim.env.VIRTUAL_ENV or '', root and root .. '/.venv' or '', root and root .. '/venv' or '' }
  for _, folder in ipairs(candidates) do
    local python = folder .. (vim.fn.has('win32') == 1 and '/Scripts/python.exe' or '/bin/python')
    if folder ~= '' and vim.fn.executable(python) == 1 then return python end
  end
  return vim.fn.exepath('python3')
end

local function attach(client, bufnr)
  local uri = vim.uri_from_bufnr(bufnr)
  vim.lsp.inlay_hint.enable(true, { bufnr = bufnr })

  local function command(name, action)
    vim.api.nvim_buf_create_user_command(bufnr, name, action, {})
  end
  command('SollensAnalyse', function() run(client, bufnr, 'analyse', { uri }) end)
  command('SollensIr', function() run(client, bufnr, 'ir', { uri }, show) end)
  command('SollensEinsum', function() run(client, bufnr, 'einsum', { uri }, show) end)
  command('SollensGraph', function() run(client, bufnr, 'graph', { uri }, browse) end)
  command('SollensReport', function() run(client, bufnr, 'report', { uri }, browse) end)
  command('SollensRestart', function() run(client, bufnr, 'restartAgent', {}) end)
  command('SollensHardware', function()
    run(client, bufnr, 'listHardware', {}, function(chips)
      local options = { prompt = 'Hardware', format_item = function(chip) return chip.name .. '  ' .. chip.detail end }
      vim.ui.select(chips, options, function(chip)
        if chip then run(client, bufnr, 'chooseHardware', { chip.id }) end
      end)
    end)
  end)
end

-- A code lens opens the report of its file.
vim.lsp.commands['sollens.openReport'] = function(command, context)
  local client = assert(vim.lsp.get_client_by_id(context.client_id))
  run(client, context.bufnr, 'report', command.arguments, browse)
end

---@type vim.lsp.Config
return {
  cmd = { 'sollens', 'serve' },
  filetypes = { 'python' },
  root_markers = { 'pyproject.toml', 'setup.py', '.git' },
  -- trusted = false: nothing of the project is run.
  init_options = { trusted = true },
  before_init = function(params, config)
    local options = params.initializationOptions or {}
    if not options.interpreter then options.interpreter = interpreter(config.root_dir) end
    params.initializationOptions = options
  end,
  on_attach = attach,
}

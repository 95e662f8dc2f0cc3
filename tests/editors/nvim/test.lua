-- What a person does with sollens in Neovim, with the init.lua of docs/editors.md. Run by ../test_nvim.py in a folder with
-- attention.py (shapes by get_inputs) and bare.py (no shapes). Prints a line for each check; the exit status tells.

local started = vim.uv.hrtime()

local function say(mark, what)
  io.stdout:write(mark, ' ', what, '\n')
end

local function check(what, condition, found)
  if condition then return say('ok  ', what) end
  say('FAIL', what .. (found and ': ' .. vim.inspect(found) or ''))
  vim.cmd('cquit! 1')
end

--- Checks that `probe` comes to return something true within a minute, and returns that.
local function eventually(what, probe)
  local value
  vim.wait(60000, function()
    value = probe()
    return value
  end, 10)
  check(what, value, vim.diagnostic.get(0))
  return value
end

local function ms_since(start)
  return math.floor((vim.uv.hrtime() - start) / 1e6)
end

--- The text at the end of each 1-based line; nil while there is none.
local function labels()
  local found = {}
  for _, hint in ipairs(vim.lsp.inlay_hint.get({ bufnr = 0 })) do
    found[hint.inlay_hint.position.line + 1] = hint.inlay_hint.label
  end
  return next(found) and found
end

local function line_of(text)
  for number, line in ipairs(vim.api.nvim_buf_get_lines(0, 0, -1, false)) do
    if line:find(text, 1, true) then return number end
  end
end

local function has_problem(code)
  for _, each in ipairs(vim.diagnostic.get(0)) do
    if each.code == code then return each end
  end
end

local function float_text()
  for _, window in ipairs(vim.api.nvim_list_wins()) do
    if vim.api.nvim_win_get_config(window).relative ~= '' then
      return table.concat(vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, false), '\n')
    end
  end
end

local function replace(old, new)
  local number = assert(line_of(old))
  local line = vim.api.nvim_buf_get_lines(0, number - 1, number, false)[1]
  vim.api.nvim_buf_set_lines(0, number - 1, number, false, { (line:gsub(vim.pesc(old), (new:gsub('%%', '%%%%')))) })
end

local function a_person_at_work()
  -- A file with shapes
  vim.cmd.edit('attention.py')
  vim.cmd.write()
  local client = eventually('the client of the snippet is attached', function() return vim.lsp.get_clients({ bufnr = 0, name = 'sollens' })[1] end)
  local shown = eventually('hints after the first save', labels)
  say('time', 'cold start to first hint: ' .. ms_since(started) .. ' ms')
  for _, text in ipairs({ 'class Model', 'self.qkv = ', 'self.qkv(x)', 'scores = ', 'weights = ', 'return self.out' }) do
    check('hint on: ' .. text, (shown[line_of(text)] or ''):find('≥ '), shown)
  end
  for _, hint in ipairs(vim.lsp.inlay_hint.get({ bufnr = 0 })) do
    local position = hint.inlay_hint.position
    local text = vim.api.nvim_buf_get_lines(0, position.line, position.line + 1, false)[1]
    check('hint at the end of line ' .. position.line + 1, vim.str_utfindex(text, 'utf-16') == position.character, hint)
  end
  check('no hint on: import', shown[line_of('import torch')] == nil, shown)
  for line, label in pairs(shown) do
    check('hint of line ' .. line .. ' has at most 25 characters: ' .. label, vim.fn.strchars(label) <= 25)
  end

  local finding = eventually('a finding', function() return has_problem('fusion-headroom') end)
  check('findings are no warnings', finding.severity >= vim.diagnostic.severity.INFO, finding)

  vim.api.nvim_win_set_cursor(0, { line_of('scores = '), 10 })
  vim.lsp.buf.hover()
  local text = eventually('hover', float_text)
  check('hover names the chip', text:find('NVIDIA H100'), text)
  say('text', text)
  vim.cmd.fclose()

  local number = line_of('scores = ')
  vim.api.nvim_buf_set_lines(0, 0, 0, false, { '# a comment', '# another one' })
  eventually('hints move with the text', function()
    local now = labels()
    return now and now[number + 2] == shown[number] and now[number] == nil
  end)

  replace('tokens, dim, heads = 8, 1024', 'tokens, dim, heads = 8, 2048')
  local saved = vim.uv.hrtime()
  vim.cmd.write()
  eventually('hints after a warm save', function()
    local now = labels()
    return now and now[number + 2] and now[number + 2] ~= shown[number]
  end)
  say('time', 'warm save to hint: ' .. ms_since(saved) .. ' ms')

  local h100 = labels()
  vim.ui.select = function(chips, options, choose)
    check('hardware is listed: ' .. options.format_item(chips[1]), #chips > 10, chips)
    choose(vim.iter(chips):find(function(chip) return chip.id == 'l4' end))
  end
  vim.cmd.SollensHardware()
  eventually('hints of another chip', function()
    local now = labels()
    return now and now[number + 2] and now[number + 2] ~= h100[number + 2]
  end)

  vim.cmd.SollensEinsum()
  eventually('the einsum graph in a window', function() return vim.bo.buftype == 'nofile' end)
  say('text', table.concat(vim.api.nvim_buf_get_lines(0, 0, 4, false), '\n'))
  vim.cmd.close()

  local opened
  vim.ui.open = function(file) opened = file end
  vim.cmd.SollensReport()
  eventually('the report is opened', function() return opened end)
  local page = table.concat(vim.fn.readfile(opened), '\n')
  check('the report has a roofline', page:find('class="roofline"', 1, true) and page:find('NVIDIA L4', 1, true))
  opened = nil
  vim.cmd.SollensGraph()
  eventually('the graph is opened', function() return opened end)
  check('the graph has boxes', table.concat(vim.fn.readfile(opened), '\n'):find('class="node contraction"', 1, true))
  vim.lsp.codelens.refresh({ bufnr = 0 })
  local lens = eventually('a code lens', function() return vim.lsp.codelens.get(0)[1] end)
  check('the lens tells the headroom: ' .. lens.command.title, lens.command.title:find('headroom by fusing', 1, true))
  opened = nil
  vim.api.nvim_win_set_cursor(0, { lens.range.start.line + 1, 0 })
  vim.lsp.codelens.run()
  eventually('the lens opens the report', function() return opened end)

  -- A file without shapes
  vim.cmd('edit! bare.py')
  vim.cmd.write()
  local problem = eventually('a file without shapes says so', function() return has_problem('missing-shapes') end)
  say('text', problem.message)
  vim.api.nvim_win_set_cursor(0, { problem.lnum + 1, 0 })
  vim.lsp.buf.code_action({ apply = true })
  eventually('the code action inserts a pragma', function() return line_of('# sol:') end)
  local pragma = vim.api.nvim_buf_get_lines(0, line_of('# sol:') - 1, line_of('# sol:'), false)[1]
  say('text', pragma)
  vim.api.nvim_buf_set_lines(0, line_of('# sol:') - 1, line_of('# sol:'), false, { '# sol: init(256), x=f32[64, 256]' })
  vim.cmd.write()
  eventually('analysed with the pragma', function()
    local now = labels()
    return now and now[line_of('class Block')] and not has_problem('missing-shapes')
  end)

  client:stop()
  check('the server ends when told', vim.wait(5000, function() return client:is_stopped() end))
end

local done, problem = xpcall(a_person_at_work, debug.traceback)
check('no error in this script', done, problem)
vim.cmd('quitall!')

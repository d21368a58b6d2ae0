package guard

import (
	"strings"

	"claudeops/internal/ops"
)

// judgeJq judges the filter of jq and yq: no environment, no modules.
func judgeJq(c *call) {
	c.options, c.operands = c.row.parseOptions(c.jqArguments(), false)
	c.optionsOf(c.row, c.options)
	files := c.operands
	if c.name == "yq" && c.has("-s", "--split-exp-file") {
		c.refuse(ruleWrite, "it writes files whose names come from the data", "leave the option out")
	}
	if c.row.cmd == "yq" && len(files) > 0 && (files[0].text == "eval" || files[0].text == "e" || files[0].text == "eval-all" || files[0].text == "ea") {
		files = files[1:]
	}
	if c.row.cmd == "yq" && len(files) == 1 {
		c.j.read(c.s, files[0], c.name) // alone it may be a file
	}
	if len(files) > 0 {
		if f := files[0]; f.dyn {
			c.runTime("filter")
		} else if jqEnv(f.text) {
			c.j.refuse(ruleSecrets, c.name, "its filter reads the environment or other files", "filter the input only")
		}
		files = files[1:]
	}
	for _, f := range files {
		if c.row.cmd == "yq" && c.has("-i", "--inplace") {
			c.j.write(c.s, f, "yq -i on")
			continue
		}
		c.j.read(c.s, f, c.name)
	}
	c.need(ops.Tier1)
}

// jqArguments takes out the options with two values and everything behind --args.
func (c *call) jqArguments() []field {
	var out []field
	for i := 0; i < len(c.args); i++ {
		switch c.args[i].text {
		case "--arg", "--argjson":
			i += 2
		case "--slurpfile", "--rawfile", "--argfile":
			if i += 2; i < len(c.args) {
				c.j.read(c.s, c.args[i], c.name)
			}
		case "--args", "--jsonargs":
			return out
		default:
			out = append(out, c.args[i])
		}
	}
	return out
}

// jqEnv reports a filter that reads the environment, a module or a file.
func jqEnv(filter string) bool {
	if strings.Contains(filter, "$ENV") || strings.Contains(filter, "$__prog") {
		return true
	}
	for i := 0; i < len(filter); {
		if !isLetter(filter[i]) {
			i++
			continue
		}
		word := run(filter[i:], len(filter), letters)
		before, after := byte(' '), strings.TrimLeft(filter[i+len(word):], " ")
		if i > 0 {
			before = filter[i-1]
		}
		i += len(word)
		switch word {
		case "env", "strenv", "envsubst", "load", "load_str", "load_xml", "load_props", "load_base64", "import", "include", "get_search_list", "modulemeta", "system":
			if before != '.' && before != '$' && before != '"' && before != '-' && before != '\'' && !strings.HasPrefix(after, ":") {
				return true
			}
		}
	}
	return false
}

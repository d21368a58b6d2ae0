package guard

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"claudeops/internal/ops"
)

// wrapped judges the command behind the words of a program that runs it.
func (c *call) wrapped(inner []field) {
	if c.row.cmd == "command" || c.row.cmd == "builtin" {
		c.out = c.j.external(c.s, inner) // the shell runs it itself: a cd counts
		return
	}
	c.j.external(c.s.sub(), inner)
}

// judgeEnv unwraps env, which alone prints the environment.
func judgeEnv(c *call) {
	options, operands := c.parse(c.row, c.args, true)
	c.options = options
	c.optionsOf(options)
	s := c.s.sub()
	for _, g := range options {
		if g.is("-u") {
			c.j.unsettable(g.value.text)
		}
	}
	if dir, ok := c.option("-C", "--chdir"); ok {
		s.cwds = c.j.folder(s, dir.value)
	}
	for len(operands) > 0 {
		name, text, ok := strings.Cut(operands[0].text, "=")
		if !ok {
			break
		}
		if !syntax.ValidName(name) {
			c.refuse(ruleRunTime, "the name "+operands[0].show()+" is not that of a variable", "write NAME=value")
			return
		}
		f := operands[0]
		c.j.variable(name, value{known: !f.dyn && !f.viaVar, text: text}, true)
		operands = operands[1:]
	}
	if len(operands) == 0 {
		c.refuse(ruleSecrets, "it prints the environment, which may hold secrets", "name the program to run")
		return
	}
	c.j.external(s, operands)
}

// folder is where cd to a word leads, nil for anywhere.
func (j *judge) folder(s *scope, f field) []string {
	if f.dyn || f.glob || f.text == "-" {
		return nil
	}
	return j.paths(s, f.text)
}

// judgeCd follows cd and pushd.
func judgeCd(c *call) {
	next := []string{homeDir}
	if len(c.operands) > 0 {
		next = c.j.folder(c.s, c.operands[0])
	}
	if len(c.operands) > 1 || len(c.operands) == 0 && c.row.cmd == "pushd" || len(c.operands) == 1 &&
		strings.HasPrefix(c.operands[0].text, "+") {
		next = nil
	}
	c.out = outcome{ok: next, fail: c.s.cwds}
}

// judgePopd goes back to a folder that is not followed.
func judgePopd(c *call) {
	c.out = outcome{}
}

// judgeShell unwraps sh -c with a literal script, or judges a script of a repository.
func judgeShell(c *call) {
	words := c.args
	for len(words) > 0 {
		text, plain := words[0].literal()
		if !plain || !strings.HasPrefix(text, "-") && !strings.HasPrefix(text, "+") || text == "-" || text == "--" {
			break
		}
		words = words[1:]
		if strings.HasPrefix(text, "--") {
			if !c.longShellOption(text) {
				return
			}
			continue
		}
		more, script, ok := c.shellOptions(text, words)
		if !ok {
			return
		}
		words = more
		if script {
			c.inlineShell(words)
			return
		}
	}
	c.shellFile(words)
}

func (c *call) longShellOption(text string) bool {
	switch text {
	case "--norc", "--noprofile", "--login", "--verbose":
		return true
	case "--version", "--help":
		c.need(ops.Tier1)
		return false
	}
	c.refuse(ruleInline, "its option "+text+" reads other code or changes the language", "use sh -c with plain text")
	return false
}

// shellOptions reads a bundle such as -lc or -euo and says whether a script follows.
func (c *call) shellOptions(bundle string, words []field) (rest []field, script, ok bool) {
	for _, o := range bundle[1:] {
		switch o {
		case 'c':
			script = bundle[0] == '-'
		case 'e', 'u', 'x', 'v', 'l', 'n', 'f', 'C', 'E', 'T', 'h', 'B', 'b':
		case 'o':
			if len(words) == 0 || !harmlessShellOption(words[0].text) {
				c.refuse(ruleInline, "its option -o changes the language", "leave the option out")
				return nil, false, false
			}
			words = words[1:]
		default:
			c.refuse(ruleInline, "its option -"+string(o)+" reads other code or changes the language", "use sh -c with plain text")
			return nil, false, false
		}
	}
	return words, script, true
}

// harmlessShellOption are the options of set -o that do not change the language.
func harmlessShellOption(name string) bool {
	switch name {
	case "errexit", "nounset", "pipefail", "xtrace", "verbose", "noglob", "noclobber", "errtrace", "functrace", "noexec":
		return true
	}
	return false
}

// inlineShell judges the script text of sh -c.
func (c *call) inlineShell(words []field) {
	if len(words) > 0 && words[0].text == "--" && !words[0].dyn {
		words = words[1:]
	}
	if len(words) == 0 {
		c.refuse(ruleInline, "it has no script", "give the script as text")
		return
	}
	text, plain := words[0].literal()
	if !plain {
		c.j.refuse(ruleRunTime, c.name+" -c", "its script is known only at run time", "write the script out")
		return
	}
	c.j.nested(c.s.foreign(), c.name+" -c", text, c.row.cmd != "bash")
}

// nested judges script text that another shell will read. Where any shell may read it, it is judged both as bash and as
// POSIX shell.
func (j *judge) nested(s *scope, what, text string, anyShell bool) {
	if s.depth += 5; s.depth > maxNesting {
		j.refuse(ruleText, what, "it is nested too deeply", "write the command plainly")
		return
	}
	langs := []language{bash}
	if anyShell {
		langs = append(langs, posix)
	}
	effects := len(j.effects)
	for _, lang := range langs {
		f, bad := j.reader.parseAs(text, lang)
		if bad != nil {
			bad.what = "the script of " + what
			j.add(*bad)
			return
		}
		muted, funcs := j.muted, j.funcs
		j.funcs = map[string]*function{}
		j.muted = muted || lang != bash && len(j.effects) > effects
		j.stmts(s.sub(), f.Stmts)
		j.muted, j.funcs = muted, funcs
	}
}

// shellFile judges a shell that reads a file or its standard input.
func (c *call) shellFile(words []field) {
	if len(words) > 0 && words[0].text == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		c.refuse(ruleRunTime, "it reads its commands from its standard input", "give the commands with -c as text")
		return
	}
	c.file(words)
}

// file judges an interpreter that runs a script.
func (c *call) file(words []field) {
	text, plain := words[0].literal()
	if plain && strings.HasPrefix(text, "/") && !c.s.container {
		if ps := c.j.paths(c.s, text); len(ps) == 1 && c.j.repoScript(ps[0]) {
			c.j.script(c.s, ps[0], words[1:])
			return
		}
	}
	c.refuse(ruleInline, "it runs a script whose content is unknown",
		"only scripts of a configured repository, by their absolute path, may run")
}

// judgeInterpreter refuses inline code and judges scripts of a repository.
func judgeInterpreter(c *call) {
	if len(c.args) == 1 && (c.args[0].text == "-V" || c.args[0].text == "-v") && !c.args[0].dyn {
		c.need(ops.Tier1)
		return
	}
	if len(c.args) == 0 || strings.HasPrefix(c.args[0].text, "-") {
		c.refuse(ruleInline, "inline, interactive or piped code cannot be judged", "use jq for JSON, and plain commands otherwise")
		return
	}
	c.file(c.args)
}

package guard

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"claudeops/internal/ops"
)

// program finds the name of a program from the path it was called by.
func (j *judge) program(s *scope, name string, args []field) (string, bool) {
	if !strings.ContainsRune(name, '/') {
		return name, true
	}
	clean := path.Clean(name)
	if path.IsAbs(name) && standardDir(path.Dir(clean)) {
		return path.Base(clean), true
	}
	if path.IsAbs(name) && !s.container && j.repoScript(clean) {
		j.script(s, clean, args)
		return "", false
	}
	j.refuse(rulePath, "the program "+name, "it does not lie in a standard directory, so it may be anything",
		"call programs by their plain name, scripts of a repository by their absolute path")
	return "", false
}

// repoScript reports a script of a configured repository.
func (j *judge) repoScript(p string) bool {
	if j.inRepo(p) < 3 || j.g.owned.Match(p, false) {
		return false
	}
	switch path.Ext(p) {
	case ".sh", ".bash", ".py", ".pl", ".rb", ".js":
		return true
	}
	return false
}

// script judges running a script of a repository: nobody knows what it touches, so it counts as a redeployment.
func (j *judge) script(s *scope, p string, args []field) {
	what := "the script " + p
	if j.stored != "" {
		j.refuse(ruleInline, what, "the same command writes files, so it might run what it wrote", "run the script by itself")
	}
	for _, a := range args {
		if _, ok := a.literal(); !ok {
			j.refuse(ruleRunTime, what, "its arguments are known only at run time", "write them out")
			return
		}
	}
	j.suspicious(s, what, args, false)
	j.need(s, ops.Tier3, ruleInline, what)
	j.effect(Effect{Kind: EffectRedeployment, Service: p})
}

// unknown refuses a program that the tables do not know: nobody knows what its words mean.
func (j *judge) unknown(base string) {
	hint := "use a program that `claudeops guard rules` lists, or ask the operator for a rule"
	if family, _, ok := strings.Cut(base, "-"); ok && j.g.tables.find(family) != nil {
		hint = "use " + family + " itself"
	}
	j.refuse(ruleUnknown, "the unknown program "+base, "it is not on the list", hint)
}

// suspicious judges an argument of a program or script that does not say what it does with it: a protected place is
// refused, and words that are a command are judged as one.
func (j *judge) suspicious(s *scope, what string, args []field, launcher bool) {
	for i, f := range args {
		arg := f.text
		for word := range strings.FieldsFuncSeq(arg, func(r rune) bool { return strings.ContainsRune(" \t\n;|&()`=,:'\"", r) }) {
			if strings.Contains(word, "$(") || strings.ContainsAny(arg, " \t\n;|&`") && j.g.tables.find(path.Base(word)) != nil {
				j.refuse(ruleUnknown, what, "its argument "+f.show()+" looks like a command", "run the command itself")
				return
			}
			if !strings.ContainsAny(word, "/.~") {
				continue
			}
			for _, p := range j.paths(s, word) {
				if j.volumes(p) || j.protected(p, false) || j.own(p) || j.g.owned.Match(p, false) || j.g.secrets.Match(p, false) {
					j.refuse(ruleUnknown, what, "its arguments name the protected place "+word, "")
					return
				}
			}
		}
		if r := j.g.tables.find(path.Base(arg)); r != nil && !strings.HasPrefix(arg, "-") && (r.tier != ops.Tier1 || r.group ||
			len(r.judges) > 0 || r.writes()) {
			if !launcher {
				j.refuse(ruleUnknown, what, "its arguments from "+f.show()+" on are a command", "run "+path.Base(arg)+" itself")
			}
			in := s.sub()
			in.loop = true
			j.simple(in, args[i:])
			return
		}
	}
}

// writes reports a program whose operands are files that it changes.
func (r *row) writes() bool {
	return slices.ContainsFunc(r.args, func(s slot) bool { return s.role == roleWrite || s.role == roleDelete || s.role == roleCommand })
}

// wrapped judges the command behind the words of a program that runs it.
func (c *call) wrapped(inner []field) {
	if c.row.cmd == "command" || c.row.cmd == "builtin" {
		c.out = c.j.simple(c.s, inner) // the shell runs it itself: a cd counts
		return
	}
	if c.row.unread {
		c.repeated(inner)
		return
	}
	c.j.simple(c.s.sub(), inner)
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
	c.j.simple(s, operands)
}

// folder is where cd to a word leads, nil for anywhere.
func (j *places) folder(s *scope, f field) []string {
	if f.dyn || f.glob || f.temp || f.text == "-" {
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
		counted := len(j.effects)
		j.stmts(s.sub(), f.Stmts)
		if counted > effects {
			j.effects = j.effects[:counted] // once, as bash reads it
		}
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

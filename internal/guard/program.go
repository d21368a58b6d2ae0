package guard

import (
	"path"
	"slices"
	"strings"

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
			j.external(in, args[i:])
			return
		}
	}
}

// writes reports a program whose operands are files that it changes.
func (r *row) writes() bool {
	return slices.ContainsFunc(r.args, func(s slot) bool { return s.role == roleWrite || s.role == roleDelete || s.role == roleCommand })
}

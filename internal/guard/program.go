package guard

import (
	"path"
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
	j.refuse(rulePath, "the program "+name, "it does not lie in a standard directory, so it may be anything", "call programs by their plain name, scripts of a repository by their absolute path")
	return "", false
}

// repoScript reports a script of a configured repository.
func (j *judge) repoScript(p string) bool {
	if j.inRepo(p) < 3 || j.g.owned.match(p, false) {
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
		text, ok := a.literal()
		if !ok {
			j.refuse(ruleRunTime, what, "its arguments are known only at run time", "write them out")
			return
		}
		j.suspicious(s, what, text)
	}
	j.need(s, ops.Tier3, ruleInline, what)
	j.effect(Effect{Kind: EffectRedeployment, Service: p})
}

// unknown judges a program the tables do not know.
func (j *judge) unknown(s *scope, base string, args []field) {
	if j.operatorAllows(s, base, args) {
		return
	}
	what := "the unknown program " + base
	if family, _, ok := strings.Cut(base, "-"); ok && j.g.tables.find(family) != nil {
		j.refuse(ruleUnknown, what, "it belongs to "+family+" and is not on the list", "use "+family+" itself")
		return
	}
	for _, a := range args {
		text, ok := a.literal()
		if !ok {
			j.refuse(ruleRunTime, what, "its arguments are known only at run time", "write them out")
			return
		}
		j.suspicious(s, what, text)
	}
	j.need(s, ops.Tier3, ruleUnknown, what)
}

// suspicious refuses an argument that names a program or a protected place: the program may be a launcher.
func (j *judge) suspicious(s *scope, what, arg string) {
	for word := range strings.FieldsFuncSeq(arg, func(r rune) bool { return strings.ContainsRune(" \t\n;|&()`=,:'\"", r) }) {
		if r := j.g.tables.find(path.Base(word)); r != nil && (r.tier != ops.Tier1 || r.group || len(r.judges) > 0) || strings.Contains(word, "$(") {
			j.refuse(ruleUnknown, what, "its arguments name the program "+path.Base(word), "call "+path.Base(word)+" itself")
			return
		}
		if !strings.ContainsAny(word, "/.~") {
			continue
		}
		for _, p := range j.paths(s, word) {
			if j.volumes(p) || j.protected(p, false) || j.own(p) || j.g.owned.match(p, false) || j.g.secrets.match(p, false) {
				j.refuse(ruleUnknown, what, "its arguments name the protected place "+word, "")
				return
			}
		}
	}
}

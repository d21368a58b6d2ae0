package guard

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// role says what a value or an operand is, and with that how it is judged.
type role string

const (
	roleValue    role = "value"    // free, but a path in it must be one that may be read
	roleText     role = "text"     // free text that is never a file
	roleWord     role = "word"     // a plain name
	roleName     role = "name"     // the same, and no path
	roleNum      role = "num"      // a number, a size, a duration
	roleRead     role = "read"     // a file or folder whose content is shown
	roleCert     role = "cert"     // the same, and a public certificate may lie beside its key
	roleList     role = "list"     // a file or folder whose name, size and times are shown
	roleWrite    role = "write"    // a file that is created or changed
	roleDelete   role = "delete"   // a file that is gone afterwards
	roleDir      role = "dir"      // the folder in which the rest happens
	roleRepo     role = "repo"     // a file of a repository
	roleBody     role = "body"     // a file that goes to others: of a repository or the temporary folder
	roleHost     role = "host"     // a host to look at
	roleService  role = "service"  // a container, unit or release
	roleUnit     role = "unit"     // the same, of systemd
	roleEngine   role = "engine"   // a container engine
	roleTemplate role = "template" // an output format of docker
	roleDate     role = "date"     // a format of date
	roleMode     role = "mode"     // the mode of a file
	roleCommand  role = "command"  // the rest is a command
	roleProgram  role = "program"  // text that tells the program what to do
	roleGitRev   role = "rev"      // a commit, a range, or a file in one
	roleFile     role = "file"     // a file that git changes by name

	rolePattern role = "pattern" // a pattern by which the program picks the files it shows
	roleExcept  role = "except"  // a pattern for files that it leaves out
	roleAt      role = "at"      // text that is no file, not even one behind an @
)

func (r role) known() bool {
	switch r {
	case roleValue, roleText, roleWord, roleName, roleNum, roleRead, roleCert, roleList, roleWrite, roleDelete, roleDir, roleRepo, roleBody,
		roleHost, roleService, roleUnit, roleEngine, roleTemplate, roleDate, roleMode, roleCommand, roleProgram,
		roleGitRev, roleFile, rolePattern, roleExcept, roleAt:
		return true
	}
	return false
}

// optionsOf judges options: what they add to the tier, and their values.
func (c *call) optionsOf(options []given) {
	// the folder first: it counts for the files of options that stand before it, too
	options = slices.Clone(options)
	slices.SortStableFunc(options, func(a, b given) int { return rank(a.flag.role == roleDir) - rank(b.flag.role == roleDir) })
	for _, g := range options {
		f := g.flag
		if f.tier >= never {
			c.j.refuse(f.rule, c.name+" "+g.name, cmp.Or(f.note, "the option runs other code, leaves the allowed places or destroys data"),
				"leave the option out")
			continue
		}
		if f.walls && !c.walled() {
			c.refuse(ruleBash, "without walls its option "+g.name+" is not known", "leave the option out")
		}
		if f.tier > 0 {
			c.j.need(c.s, f.tier, ruleBash, c.name+" "+g.name)
		}
		what := c.name + " " + g.name
		if g.has {
			c.judgeRole(f.role, f.of, g.value, what)
		}
		if f.second != "" && g.has {
			c.judgeRole(f.second, nil, g.second, what)
		}
	}
}

func rank(first bool) int {
	if first {
		return 0
	}
	return 1
}

// operandsOf judges the operands by the places the row has for them.
func (c *call) operandsOf() {
	slots := c.row.args
	for _, g := range c.options {
		if g.flag.first && len(slots) > 0 {
			slots = slots[1:]
			break
		}
	}
	for i, s := range assignSlots(slots, len(c.operands)) {
		switch {
		case s == nil:
			c.refuse(ruleBash, "it takes no argument such as "+c.operands[i].show()+" here", "leave it out")
		case s.role == roleCommand:
			c.wrapped(c.operands[i:])
			return
		default:
			c.judgeRole(s.role, s.of, c.operands[i], c.name)
		}
	}
	least := 0
	for _, s := range slots {
		least += s.min
	}
	if len(c.operands) < least {
		c.refuse(ruleBash, "it lacks an argument, and might take it from its standard input", "name what it works on")
	}
}

// assignSlots finds the place of each operand; nil where there is none. What stands behind a place for many comes last.
func assignSlots(slots []slot, n int) []*slot {
	out := make([]*slot, n)
	many := -1
	for i, s := range slots {
		if s.many {
			many = i
		}
	}
	for i := range out {
		switch behind := len(slots) - 1 - many; {
		case many < 0 || i < many:
			if i < len(slots) {
				out[i] = &slots[i]
			}
		case n-i <= behind && i > many:
			out[i] = &slots[len(slots)-(n-i)]
		default:
			out[i] = &slots[many]
		}
	}
	return out
}

// judgeRole judges a word by what it is for the program.
func (c *call) judgeRole(r role, of []string, f field, what string) {
	if f.proc && r != roleRead && r != roleValue && r != roleText && r != roleList && r != roleCert && r != roleWrite {
		c.runTime(what)
		return
	}
	port := r == roleNum && f.plain && f.text == string(rune(hole))
	if c.row.sends && f.dyn && !f.num && !port && r != roleHost && r != roleRead && r != roleCert {
		c.j.refuse(ruleRunTime, what+" "+f.show(), "what is put together at run time can carry data away", "write it out")
		return
	}
	changes := c.row.tier > ops.Tier1
	if changes && r != roleText && (f.dyn || f.viaVar || f.glob && r != roleDelete && r != roleRead && r != roleWrite) && !(f.num && f.dyn) {
		c.runTime(what)
	}
	if len(of) > 0 {
		c.oneOf(of, f, what)
		return
	}
	switch r {
	case roleText:
		if f.split && !f.plain && !c.row.free {
			c.runTime(what)
		}
	case roleWord, roleName, roleNum:
		c.word(r, f, what)
	case roleRead:
		if c.row.stop && len(f.text) > 1 && f.text[0] == '-' {
			c.refuse(ruleBash, "some programs of that name read "+f.show()+" as an option here", "put options first")
		}
		c.j.read(c.s, f, what)
	case roleCert:
		c.certificate(f, what)
	case roleList:
		c.j.list(c.s, f, what)
	case roleWrite:
		c.j.write(c.s, f, what)
	case roleDelete:
		c.j.change(c.s, f, what, true)
	case roleRepo:
		c.inRepo(f, what)
	case roleBody:
		c.bodyFile(f, what)
	case roleHost:
		c.host(f, what)
	case roleService, roleUnit:
		c.serviceOperand(r, f)
	case roleEngine:
		c.engine(f)
	case roleDir:
		s := c.s.sub()
		s.cwds = c.j.folder(s, f)
		c.s = s
	default:
		c.judgeLanguage(r, f, what)
	}
}

// judgeLanguage judges words that hold a small language, and free values.
func (c *call) judgeLanguage(r role, f field, what string) {
	switch r {
	case roleTemplate:
		c.template(f)
	case roleDate:
		if !strings.HasPrefix(f.text, "+") {
			c.j.refuse(ruleOwn, c.name, "it sets the clock", "print the time with date +FORMAT")
		}
	case roleMode:
		c.mode(f)
	case roleProgram:
		c.told(f)
	case roleGitRev:
		gitCall{c}.revision(f)
	case roleFile: // what it stages can be shown and pushed
		c.j.repoFile(c.s, f, what)
		f.glob = f.glob || strings.ContainsAny(f.text, "*?[")
		c.j.read(c.s, f, what)
	case rolePattern, roleExcept:
		if (!c.walled() || !c.row.local) && (f.dyn || strings.Contains(f.text, "[") || r == rolePattern && c.j.g.secrets.picks(f.text)) {
			c.j.refuse(ruleSecrets, what+" "+f.show(), "it may pick files that hold secrets", "use one name or *.EXTENSION")
		}
	case roleAt:
		if _, text, _ := strings.Cut(f.text, "="); f.dyn || strings.HasPrefix(text, "@") {
			c.j.refuse(ruleSecrets, what+" "+f.show(), "it sends a file away", "send plain text only")
		}
	default:
		c.freeValue(f, what)
	}
}

// oneOf requires one of the listed words.
func (c *call) oneOf(of []string, f field, what string) {
	text, plain := f.literal()
	for _, o := range of {
		if plain && text == o {
			return
		}
	}
	if !plain {
		c.runTime(what)
		return
	}
	c.refuse(ruleBash, "it does not know "+f.show()+" here", "use one of "+strings.Join(of, ", "))
}

// word requires a plain name, or a number where the program takes one.
func (c *call) word(r role, f field, what string) {
	if f.dyn {
		if f.split && !f.plain && !f.num {
			c.runTime(what)
		}
		return
	}
	if r == roleNum {
		if strings.ContainsAny(f.text, "/~") || strings.IndexFunc(f.text, func(r rune) bool { return r >= '0' && r <= '9' }) < 0 &&
			len(f.text) > 12 {
			c.refuse(ruleBash, f.show()+" is not a number", "give a number")
		}
		return
	}
	if strings.Trim(f.text, letters+".:/@%+,-[]*?!^") != "" || r == roleName && strings.Contains(f.text, "/") {
		c.refuse(ruleBash, f.show()+" is not a plain name", "give a plain name")
	}
	c.freeValue(f, what)
}

// freeValue judges a value of which only this matters: that it does not lead a program to a protected file.
func (c *call) freeValue(f field, what string) {
	if f.dyn {
		if f.split && !f.plain && !f.num {
			c.runTime(what)
		}
		if head, _, _ := strings.Cut(f.text, string(rune(hole))); strings.Contains(head, "/") && !f.num && !f.plain {
			c.runTime(what)
		}
		return
	}
	if f.proc || strings.Contains(f.text, "://") && !strings.Contains(f.text, "file:") {
		return
	}
	for part := range strings.FieldsFuncSeq(f.text, func(r rune) bool { return strings.ContainsRune("=,@: ", r) }) {
		glob := f.glob || strings.ContainsAny(part, "*?[")
		for _, p := range c.j.paths(c.s, part) {
			if strings.Contains(part, "/") && c.j.own(p) && p != path.Join(c.j.facts.StateDir, "cooldown.json") ||
				strings.ContainsAny(part, "/~.") && c.j.g.secrets.Match(p, glob) && (strings.ContainsAny(part, "/~") ||
					c.j.g.secrets.Match("/"+part, glob)) {
				c.j.refuse(ruleSecrets, what+" "+f.show(), "it names a protected file", "report what you need to know instead")
			}
		}
	}
}

// host requires a host that is written out: names that are put together carry data away.
func (c *call) host(f field, what string) {
	if f.dyn && !f.plain || f.dyn && strings.Trim(f.text, string(rune(hole))) != "" {
		c.j.refuse(ruleRunTime, what+" "+f.show(), "a name that is put together at run time can carry data away", "write the name out")
		return
	}
	name := strings.TrimPrefix(f.text, "@")
	if !f.dyn && (name == "" || name[0] == '-' || strings.Trim(name, letters+".:%/[]-+") != "") {
		c.refuse(ruleBash, f.show()+" is not the name or address of a host", "name the host")
	}
	if strings.ContainsAny(name, "/~") && !strings.HasPrefix(name, "/dev/") {
		c.freeValue(f.withText(name), what)
	}
}

// runTime refuses an argument known only at run time.
func (c *call) runTime(what string) {
	c.j.refuse(ruleRunTime, strings.TrimSpace(cmp.Or(what, c.name)), "an argument is known only at run time", "write the argument out")
}

// certificate allows the public half of what lies beside a private key.
func (c *call) certificate(f field, what string) {
	text, plain := f.literal()
	p := path.Clean(text)
	if plain && path.IsAbs(p) && (within(p, "/etc/letsencrypt/live") || within(p, "/etc/letsencrypt/archive") || within(p,
		"/etc/kubernetes/pki") || within(p, "/var/lib/rancher")) {
		base := path.Base(p)
		if ext := path.Ext(base); ext == ".crt" || ext == ".cer" || ext == ".pem" && (strings.HasPrefix(base, "fullchain") ||
			strings.HasPrefix(base, "cert") || strings.HasPrefix(base, "chain")) {
			if ps := c.j.follow(c.s, p); len(ps) == 1 || !strings.Contains(path.Base(ps[1]), "key") {
				return
			}
		}
	}
	c.j.read(c.s, f, what)
}

// inRepo requires that a file lies in a configured repository. On another host every place is fine that not everybody
// can write to.
func (c *call) inRepo(f field, what string) {
	text, ok := f.literal()
	if !ok {
		c.runTime(what)
		return
	}
	if strings.HasPrefix(text, "-") || strings.ContainsAny(text, ":@") {
		c.j.refuse(rulePath, what+" "+f.show(), "it is not a file of a configured repository",
			"use the file in the repository by its absolute path")
		return
	}
	var places []string
	for name := range strings.SplitSeq(text, ",") { // several programs take a list here
		places = append(places, c.j.paths(c.s, name)...)
	}
	for _, p := range places {
		switch {
		case c.j.inRepo(p) > 0:
		case c.s.remote && path.IsAbs(p) && !within(p, "/tmp") && !within(p, "/var/tmp") && !within(p, "/dev") && !within(p, "/proc") &&
			!within(p, "/home"):
		default:
			c.j.refuse(rulePath, what+" "+f.show(), "the file does not lie in a configured repository",
				"use the file in the repository by its absolute path")
		}
		if c.j.volumes(p) || c.j.own(p) {
			c.j.refuse(ruleOwn, what+" "+f.show(), "the place is protected", "")
		}
	}
}

// bodyFile requires that text which goes to others lies in a repository or was written for it.
func (c *call) bodyFile(f field, what string) {
	if f.text == "-" {
		return
	}
	c.j.read(c.s, f, what)
	for _, p := range c.j.paths(c.s, f.text) {
		if c.j.inRepo(p) == 0 && !c.j.temporary(p) {
			c.j.refuse(ruleSecrets, what+" "+f.show(), "it sends a file of the host away", "send a file of a repository or of the temporary folder")
		}
	}
}

// writtenOut refuses options whose value is known only at run time: it decides what is shown.
func (c *call) writtenOut(names ...string) {
	for _, g := range c.options {
		if g.is(names...) && g.value.dyn && !g.value.num {
			c.runTime(c.name + " " + g.name)
		}
	}
}

// has reports whether one of the options was given.
func (c *line) has(names ...string) bool {
	_, ok := c.option(names...)
	return ok
}

// option returns the last given option of one of these names.
func (c *line) option(names ...string) (given, bool) {
	for i := len(c.options) - 1; i >= 0; i-- {
		if c.options[i].is(names...) {
			return c.options[i], true
		}
	}
	return given{}, false
}

// is reports whether the option has one of these names, or another name of the same option.
func (g given) is(names ...string) bool {
	for _, n := range names {
		for _, own := range g.flag.names {
			if g.name == n || own == n && !g.flag.loose() {
				return true
			}
		}
	}
	return false
}

// loose reports a line of the tables that lists several options which have nothing but their arity in common.
func (f *flag) loose() bool { return len(f.names) > 2 }

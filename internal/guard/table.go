package guard

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// What the guard knows of programs, one file per field of work. The first lines of 10-shell.rules explain the form.
//
//go:embed tables/*.rules tables/*.list
var tableFiles embed.FS

// flag is one option of a command.
type flag struct {
	names    []string
	role     role // of its value; "" takes none
	second   role // of its second value; "" takes one
	optional bool // takes a value only when it is joined on
	first    bool // gives what the first operand gives otherwise
	dry      bool // nothing changes
	walls    bool // known only behind walls
	of       []string
	tier     ops.Tier // raises the tier of the command; never refuses it
	rule     string
	note     string
}

// slot is a place for operands.
type slot struct {
	role role
	of   []string
	min  int
	many bool
}

// row is one command of the tables.
type row struct {
	section    string
	cmd        string
	when       []string // a variant of the command: with one of these options
	tier       ops.Tier
	rule       string
	note       string
	group      bool
	persistent bool // the subcommands take the options of the group as well
	like       string
	args       []slot
	argsGiven  bool
	effect     EffectKind
	phase      Phase
	free       bool // no word can do harm, not even as an option
	stop       bool // options end at the first operand
	single     bool // long options have one dash
	plus       bool // words that start with + are options too
	look       bool // where the network is closed, the supervisor runs it
	inside     bool // where the network is closed, it would show another one
	database   bool // it asks a database, which the supervisor does by queries
	attack     bool // one that names the supervisor is an attack
	unread     bool // what it is told to do is not read: behind walls it runs with the rights of cat
	local      bool // it needs no more than to read
	sends      bool // what it is given goes elsewhere, so it is written out
	needs      []string
	judges     []string
	options    []*flag
	flags      map[string]*flag
	variants   []*row
	alias      string
}

// tables are all rows by command.
type tables struct {
	rows  map[string]*row
	order []*row
}

// readTables parses the embedded files.
func readTables() (*tables, error) {
	t := &tables{rows: map[string]*row{}}
	names, err := fs.Glob(tableFiles, "tables/*.rules")
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	slices.Sort(names)
	for _, name := range names {
		data, err := fs.ReadFile(tableFiles, name)
		if err != nil {
			return nil, fmt.Errorf("read table: %w", err)
		}
		if err := t.read(name, string(data)); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// read adds one file.
func (t *tables) read(file, text string) error {
	section, sends, local := "", false, false
	var current []*row
	for n, line := range strings.Split(text, "\n") {
		var err error
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "" || strings.HasPrefix(trimmed, "//"):
		case strings.HasPrefix(trimmed, "# "):
			section, sends = strings.CutSuffix(trimmed[2:], ", which sends what it is given")
			section, local = strings.CutSuffix(section, ", which only reads")
		case line[0] == ' ' || line[0] == '\t':
			err = addFlag(current, trimmed)
		default:
			current, err = t.addRow(section, trimmed)
			for _, r := range current {
				r.sends, r.local = r.sends || sends, local
			}
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", file, n+1, err)
		}
	}
	return nil
}

// addRow reads `command : attributes : note`, `command @ options : attributes : note` or `names = command`.
func (t *tables) addRow(section, line string) ([]*row, error) {
	if names, target, ok := strings.Cut(line, " = "); ok && !strings.Contains(line, " : ") {
		for _, name := range alternatives(names) {
			if err := t.put(&row{section: section, cmd: name, alias: strings.TrimSpace(target)}); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	cmd, rest, ok := strings.Cut(line, " : ")
	if !ok {
		return nil, fmt.Errorf("%q has no attributes", line)
	}
	attrs, note, _ := strings.Cut(rest, " : ")
	cmd, when, variant := strings.Cut(cmd, " @ ")
	var out []*row
	for _, name := range alternatives(cmd) {
		r := &row{section: section, cmd: name, note: strings.TrimSpace(note), flags: map[string]*flag{}}
		var base *row
		if variant {
			if base = t.rows[name]; base == nil {
				return nil, fmt.Errorf("%s has no row to be a variant of", name)
			}
			*r = *base
			r.when, r.note, r.variants, r.tier, r.rule = strings.Split(when, "|"), strings.TrimSpace(note), nil, 0, ""
			r.judges, r.needs = nil, nil
		}
		if err := t.setAll(r, attrs); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if r.tier == 0 && !r.group {
			return nil, fmt.Errorf("%s has no tier", name)
		}
		if base != nil {
			base.variants = append(base.variants, r)
			continue
		}
		if err := t.put(r); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// setAll applies the attributes of a row.
func (t *tables) setAll(r *row, attrs string) error {
	for a := range strings.SplitSeq(attrs, ",") {
		words := strings.Fields(a)
		if len(words) > 1 && words[0] == "options" {
			from := t.find(strings.Join(words[1:], " "))
			if from == nil {
				return fmt.Errorf("there is no command %q", words[1])
			}
			for _, f := range from.options {
				if err := r.addFlag(f); err != nil {
					return err
				}
			}
			continue
		}
		if err := r.set(words); err != nil {
			return err
		}
	}
	return nil
}

func (t *tables) put(r *row) error {
	if t.rows[r.cmd] != nil {
		return fmt.Errorf("%s is listed twice", r.cmd)
	}
	t.rows[r.cmd] = r
	t.order = append(t.order, r)
	return nil
}

// alternatives expands `docker ps|images` into docker ps and docker images.
func alternatives(cmd string) []string {
	out := []string{""}
	for word := range strings.FieldsSeq(cmd) {
		var next []string
		for _, head := range out {
			for name := range strings.SplitSeq(word, "|") {
				next = append(next, strings.TrimPrefix(head+" "+name, " "))
			}
		}
		out = next
	}
	return out
}

// set applies one attribute of a row.
func (r *row) set(words []string) error {
	if len(words) == 0 {
		return fmt.Errorf("empty attribute")
	}
	arg := strings.Join(words[1:min(2, len(words))], "") // the second word
	marks := map[string]*bool{
		"group": &r.group, "persistent": &r.persistent, "free": &r.free, "stop": &r.stop, "single": &r.single, "plus": &r.plus,
		"sends": &r.sends, "look": &r.look, "inside": &r.inside, "database": &r.database, "attack": &r.attack, "unread": &r.unread,
	}
	if mark := marks[words[0]]; mark != nil {
		*mark = true
		return nil
	}
	switch words[0] {
	case "tier":
		tier, err := parseTier(arg)
		r.tier, r.rule = tier, ""
		return err
	case "refuse":
		r.tier, r.rule = never, cmp.Or(arg, ruleBash)
	case "like":
		r.like = strings.Join(words[1:], " ")
	case "args":
		return r.setArgs(words[1:])
	case "restart", "redeployment":
		r.effect, r.phase = EffectKind(words[0]), Phase(arg)
	case "needs":
		r.needs = words[1:]
	case "judge":
		r.judges = append(r.judges, arg)
	default:
		return fmt.Errorf("unknown attribute %q", words[0])
	}
	return nil
}

// setArgs reads the places for operands: `read` one, `read?` none or one, `read*` any number, `read+` at least one.
func (r *row) setArgs(words []string) error {
	r.args, r.argsGiven = nil, true
	for _, w := range words {
		s := slot{min: 1}
		switch w[len(w)-1] {
		case '?':
			s.min = 0
		case '*':
			s.min, s.many = 0, true
		case '+':
			s.many = true
		}
		w = strings.TrimRight(w, "?*+")
		if list, ok := strings.CutPrefix(w, "of:"); ok {
			s.role, s.of = roleWord, strings.Split(list, "|")
		} else if s.role = role(w); !s.role.known() {
			return fmt.Errorf("unknown role %q", w)
		}
		if s.role == roleCommand {
			r.stop = true
		}
		r.args = append(r.args, s)
	}
	return nil
}

// addFlag reads `-f --file : repo : note` for the rows of the line before.
func addFlag(rows []*row, line string) error {
	names, rest, _ := strings.Cut(line, " : ")
	attrs, note, _ := strings.Cut(rest, " : ")
	f := &flag{names: optionNames(names), note: strings.TrimSpace(note)}
	for a := range strings.SplitSeq(attrs, ",") {
		if err := f.set(strings.Fields(a)); err != nil {
			return err
		}
	}
	if len(rows) == 0 {
		return fmt.Errorf("option line %q without a command", line)
	}
	for _, r := range rows {
		if err := r.addFlag(f); err != nil {
			return err
		}
	}
	return nil
}

// addFlag gives a row an option.
func (r *row) addFlag(f *flag) error {
	r.options = append(r.options, f)
	for _, name := range f.names {
		if name[0] != '-' && (name[0] != '+' || !r.plus) {
			return fmt.Errorf("option %q has no dash", name)
		}
		if r.flags[name] != nil {
			return fmt.Errorf("%s lists %s twice", r.cmd, name)
		}
		r.flags[name] = f
	}
	return nil
}

// optionNames expands -[abc] into -a, -b and -c.
func optionNames(text string) []string {
	var out []string
	for name := range strings.FieldsSeq(text) {
		letters, ok := strings.CutPrefix(name, "-[")
		if !ok || !strings.HasSuffix(letters, "]") {
			out = append(out, name)
			continue
		}
		for _, l := range strings.TrimSuffix(letters, "]") {
			out = append(out, "-"+string(l))
		}
	}
	return out
}

// set applies one attribute of an option.
func (f *flag) set(words []string) error {
	if len(words) == 0 {
		return nil
	}
	arg := strings.Join(words[1:min(2, len(words))], "") // the second word
	switch words[0] {
	case "optional":
		f.optional = true
		f.role = cmp.Or(f.role, roleValue)
	case "two":
		f.second = role(arg)
		f.role = roleText
	case "of":
		f.of = strings.Split(arg, "|")
		f.role = cmp.Or(f.role, roleWord)
	case "first":
		f.first = true
	case "dry":
		f.dry = true
	case "walls":
		f.walls = true
	case "tier":
		tier, err := parseTier(arg)
		f.tier = tier
		return err
	case "refuse":
		f.tier, f.rule = never, cmp.Or(arg, ruleBash)
	default:
		if f.role = role(words[0]); !f.role.known() {
			return fmt.Errorf("unknown option attribute %q", words[0])
		}
	}
	return nil
}

// find returns the row of a command, following aliases.
func (t *tables) find(cmd string) *row {
	r := t.rows[cmd]
	for r != nil && r.alias != "" {
		r = t.rows[r.alias]
	}
	return r
}

// given is one option as it stands in a command.
type given struct {
	name   string
	flag   *flag
	value  field
	second field
	has    bool // a value came with it
	behind int  // how many operands stand before it
}

// optionReader splits the words after a command into options and operands, by the options its row lists.
type optionReader struct {
	c        *call
	r        *row
	more     []*row // groups whose options are taken as well
	words    []field
	options  []given
	operands []field
}

// sorted are the words of a command as the tables divide them.
type sorted struct {
	row      *row
	options  []given
	operands []field
}

// parse reads the options of a row. What the row does not list is refused: an option of unknown arity would hide what
// follows it. With stop it ends at the first operand, which starts something else.
func (c *call) parse(r *row, words []field, stop bool) ([]given, []field) {
	p := &optionReader{c: c, r: r, more: c.groups, words: words}
	p.read(stop)
	c.j.sorted = append(c.j.sorted, sorted{r, p.options, p.operands})
	return p.options, p.operands
}

func (p *optionReader) read(stop bool) {
	c, r := p.c, p.r
	for len(p.words) > 0 {
		w := p.words[0]
		p.words = p.words[1:]
		switch {
		case maybeOption(w) && !r.free:
			c.j.refuse(ruleRunTime, c.name+" "+w.show(), "a word that is known only at run time could be an option",
				"write it out, or put -- before it")
			p.operands = append(p.operands, w)
		case w.text == "--" && !w.dyn && (!r.single || r.cmd == "find"):
			p.operands = append(p.operands, p.words...)
			return
		case p.isOption(w.text):
			p.option(w)
		default:
			p.operands = append(p.operands, w)
			if stop {
				p.operands = append(p.operands, p.words...)
				return
			}
		}
	}
}

// maybeOption reports a word that may become an option at run time.
func maybeOption(w field) bool {
	if w.glob {
		return false // what it matches is looked at where the files are
	}
	return w.dyn && !w.plain && !w.num && (w.split || w.text != "" && w.text[0] == hole)
}

func (p *optionReader) isOption(text string) bool {
	return len(text) > 1 && text[0] == '-' || p.r.plus && len(text) > 0 && text[0] == '+'
}

func (p *optionReader) find(name string) *flag {
	if f := p.r.flags[name]; f != nil {
		return f
	}
	for _, g := range p.more {
		if f := g.flags[name]; f != nil {
			return f
		}
	}
	return nil
}

// option reads one word that is an option, or a bundle of them.
func (p *optionReader) option(w field) {
	text := w.text
	if p.r.free {
		return // no word can do harm
	}
	if isDigits(text[1:]) && p.find("-NUM") != nil {
		p.options = append(p.options, given{name: "-NUM", flag: p.find("-NUM")})
		return
	}
	if strings.HasPrefix(text, "--") || p.r.single || text[0] == '+' {
		if p.r.single {
			text = "-" + strings.TrimLeft(text, "-")
		}
		name, value, has := strings.Cut(text, "=")
		f := p.find(name)
		if f == nil && has {
			f = p.find(text) // options such as +tls=… that are listed whole
		}
		if f == nil && p.r.single && len(text) > 2 && p.find(text[:2]) != nil && p.find(text[:2]).role != "" {
			// one letter with its value joined on, in programs that have both
			p.take(given{name: text[:2], flag: p.find(text[:2]), has: true, value: w.withText(text[2:])})
			return
		}
		p.take(given{name: name, flag: f, has: has, value: w.withText(value)})
		return
	}
	p.bundle(w)
}

// bundle expands -rf and -n5 by the same table.
func (p *optionReader) bundle(w field) {
	for k := 1; k < len(w.text); k++ {
		name := "-" + w.text[k:k+1]
		f := p.find(name)
		g := given{name: name, flag: f}
		if k == 1 && f == nil && p.find(w.text) != nil {
			g.flag, g.name = p.find(w.text), w.text // a word such as -vv that is listed whole
			p.take(g)
			return
		}
		if f == nil || f.role == "" {
			p.take(g)
			if f == nil {
				return // of unknown arity: the rest means nothing
			}
			continue
		}
		if tail := w.text[k+1:]; tail != "" {
			if joinsWithEquals(p.r.cmd) {
				tail = strings.TrimPrefix(tail, "=")
			}
			g.value, g.has = w.withText(tail), true
		}
		p.take(g)
		return
	}
}

// take records an option with its value.
func (p *optionReader) take(g given) {
	c, f := p.c, g.flag
	shown := strings.ReplaceAll(g.name, string(rune(hole)), "…")
	switch {
	case f == nil:
		c.refuse(ruleBash, "its option "+shown+" is not on the list", "leave the option out, or use another one")
		return
	case f.role == "" && g.has:
		c.refuse(ruleBash, "its option "+shown+" takes no value", "write "+shown+" alone, or leave it out")
	case f.role != "" && !g.has && !f.optional:
		if g.value, g.has = p.next(); !g.has {
			c.refuse(ruleBash, "its option "+shown+" has no value", "give it one")
		}
	}
	if f.second != "" {
		if g.second, g.has = p.next(); !g.has {
			c.refuse(ruleBash, "its option "+shown+" has no second value", "give it one")
		}
	}
	g.behind = len(p.operands)
	p.options = append(p.options, g)
}

// next takes the following word as a value.
func (p *optionReader) next() (field, bool) {
	if len(p.words) == 0 {
		return field{}, false
	}
	w := p.words[0]
	p.words = p.words[1:]
	if w.dyn && w.split || w.glob && p.r.cmd != "find" {
		p.c.j.refuse(ruleRunTime, p.c.name+" "+w.show(), "the value of an option may become several words or none", "put it in double quotes")
	}
	return w, true
}

// joinsWithEquals reports programs that read -n=web as -n web; others take the sign as part of the value.
func joinsWithEquals(cmd string) bool {
	program, _, _ := strings.Cut(cmd, " ")
	switch program {
	case "docker", "kubectl", "helm", "gh", "flux", "argocd", "podman", "nerdctl", "crictl":
		return true
	}
	return false
}

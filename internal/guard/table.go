package guard

import (
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
	half       Half
	free       bool // no word can do harm, not even as an option
	stop       bool // options end at the first operand
	single     bool // long options have one dash
	plus       bool // words that start with + are options too
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
	section := ""
	var current []*row
	for n, line := range strings.Split(text, "\n") {
		var err error
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "" || strings.HasPrefix(trimmed, "//"):
		case strings.HasPrefix(trimmed, "# "):
			section = trimmed[2:]
		case line[0] == ' ' || line[0] == '\t':
			err = addFlag(current, trimmed)
		default:
			current, err = t.addRow(section, trimmed)
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
	arg := ""
	if len(words) > 1 {
		arg = words[1]
	}
	switch words[0] {
	case "tier":
		tier, err := parseTier(arg)
		r.tier, r.rule = tier, ""
		return err
	case "refuse":
		r.tier, r.rule = never, cmpOr(arg, ruleBash)
	case "group":
		r.group = true
	case "persistent":
		r.persistent = true
	case "like":
		r.like = strings.Join(words[1:], " ")
	case "args":
		return r.setArgs(words[1:])
	case "restart", "redeployment":
		r.effect, r.half = EffectKind(words[0]), Half(arg)
	case "free":
		r.free = true
	case "stop":
		r.stop = true
	case "single":
		r.single = true
	case "plus":
		r.plus = true
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
	arg := ""
	if len(words) > 1 {
		arg = words[1]
	}
	switch words[0] {
	case "optional":
		f.optional = true
		if f.role == "" {
			f.role = roleValue
		}
	case "two":
		f.second = role(arg)
		f.role = roleText
	case "of":
		f.of = strings.Split(arg, "|")
		if f.role == "" {
			f.role = roleWord
		}
	case "first":
		f.first = true
	case "dry":
		f.dry = true
	case "tier":
		tier, err := parseTier(arg)
		f.tier = tier
		return err
	case "refuse":
		f.tier, f.rule = never, cmpOr(arg, ruleBash)
	default:
		if f.role = role(words[0]); !f.role.known() {
			return fmt.Errorf("unknown option attribute %q", words[0])
		}
	}
	return nil
}

func cmpOr(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// find returns the row of a command, following aliases.
func (t *tables) find(cmd string) *row {
	r := t.rows[cmd]
	for r != nil && r.alias != "" {
		r = t.rows[r.alias]
	}
	return r
}

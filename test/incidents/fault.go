package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Fault is one folder of faults/: a machine, what breaks on it, and how it should end.
type Fault struct {
	Name string `yaml:"-"`
	Dir  string `yaml:"-"`

	Patience int `yaml:"-"` // how many times as long as usual agents may take

	Title    string      `yaml:"title"`
	Breaks   string      `yaml:"breaks"`
	Services []yaml.Node `yaml:"services"` // as in claudeops.yaml: probes, containers, and the actions of each tier
	Rules    []yaml.Node `yaml:"rules"`    // operator rules for the guard, as in guard.yaml
	Notes    string      `yaml:"notes"`    // what the operator tells agents about the environment
	MaxTier  int         `yaml:"max_tier"` // the highest tier that may act; 3 where it is left out

	// Cases makes one fault of each entry, all in the same scene: what an agent ran in a public report.
	Cases map[string]Case `yaml:"cases"`

	Expect Expect `yaml:"expect"`
	Facts  Facts  `yaml:"facts"`

	// Change is a regular expression of the line that tells what broke it. None where breaking it changes nothing that stays on the machine:
	// a lock, a signal, a state in the memory of a program.
	Change string `yaml:"change"`
	// Processes are regular expressions of command lines that a repair may leave running: services that are processes.
	Processes []string `yaml:"processes"`
	// Watch is how long nothing may happen before a run counts as over without an incident.
	Watch duration `yaml:"watch"`
}

// Case is a public report in which an agent destroyed something.
type Case struct {
	Report string   `yaml:"report"` // its address, or its name
	Runs   []string `yaml:"runs"`   // the commands
}

// Expect is how the fault ends when everybody does their work.
type Expect struct {
	End   string `yaml:"end"`   // resolved, human or healthy
	Tier  int    `yaml:"tier"`  // the tier that repairs it, or that asks for a human
	Human *bool  `yaml:"human"` // a human must be asked; by default exactly where end is human
}

// Facts are what the scripted models know about the fault.
type Facts struct {
	Look      []string       `yaml:"look"`      // commands that show what is wrong
	Broken    string         `yaml:"broken"`    // regular expression: what these commands print while it is broken
	Repair    map[int][]Step `yaml:"repair"`    // by tier, the steps that repair it
	Verify    []string       `yaml:"verify"`    // commands that show whether it works
	Working   string         `yaml:"working"`   // regular expression: what the last of them prints when it works
	Wrong     []Step         `yaml:"wrong"`     // the right idea on the wrong target
	Forbidden []Step         `yaml:"forbidden"` // the obvious repair that is not allowed
	Shortcut  []Step         `yaml:"shortcut"`  // turns the probe green and repairs nothing: the oracle stays red, or becomes so
	Destroy   []string       `yaml:"destroy"`   // what the wrecker does here beside its own commands
	Poison    []Poison       `yaml:"poison"`    // what a text on this machine tells agents to do
	Disaster  []string       `yaml:"-"`         // what the agent of the report ran, where the fault is a case
}

// Poison is an instruction in a log, a page or a commit message.
type Poison struct {
	Sees string `yaml:"sees"` // regular expression that finds the instruction in a tool's answer
	Does string `yaml:"does"` // the command that obeys it
}

// Step is one thing that an agent does: an action of the supervisor, a command, or an edit of a file.
type Step struct {
	Service string `yaml:"service"`
	Action  string `yaml:"action"`
	Run     string `yaml:"run"` // a command; with an action, how it is done where no supervisor offers the action
	File    string `yaml:"file"`
	Old     string `yaml:"old"`
	New     string `yaml:"new"`
}

// duration is a time such as 10s in a YAML file.
type duration time.Duration

// UnmarshalYAML reads a duration.
func (d *duration) UnmarshalYAML(n *yaml.Node) error {
	parsed, err := time.ParseDuration(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	*d = duration(parsed)
	return nil
}

// scripts are the programs of a fault; the others may be left out.
func scripts() []string { return []string{"up", "break", "oracle"} }

// loadFaults reads every fault in a folder, sorted by name. "ground" is not a fault: it is what every machine has.
func loadFaults(dir string) ([]*Fault, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*", "fault.yaml"))
	if err != nil {
		return nil, fmt.Errorf("find faults: %w", err)
	}
	slices.Sort(paths)
	faults := make([]*Fault, 0, len(paths))
	for _, path := range paths {
		f, err := loadFault(filepath.Dir(path))
		if err != nil {
			return nil, err
		}
		faults = append(faults, f.cases()...)
	}
	return faults, nil
}

// cases are the faults of one folder: itself, or its cases.
func (f *Fault) cases() []*Fault {
	if len(f.Cases) == 0 {
		return []*Fault{f}
	}
	var all []*Fault
	for _, name := range slices.Sorted(maps.Keys(f.Cases)) {
		one := *f
		one.Name, one.Facts.Disaster = f.Name+"-"+name, f.Cases[name].Runs
		one.Title = "The web server is down, and the agent runs " + strings.Join(one.Facts.Disaster, "; ")
		one.Cases = map[string]Case{name: f.Cases[name]}
		all = append(all, &one)
	}
	return all
}

// meets reports whether a model has something to do with a fault: the commands of public reports belong to one model, and it has no others.
func (f *Fault) meets(model string) bool {
	return (len(f.Facts.Disaster) > 0) == (strings.TrimSuffix(model, onCodex) == "museum")
}

func loadFault(dir string) (*Fault, error) {
	f := &Fault{Name: filepath.Base(dir), Dir: dir, MaxTier: 3, Watch: duration(8 * time.Second)}
	file, err := os.Open(filepath.Join(dir, "fault.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read fault: %w", err)
	}
	defer func() { _ = file.Close() }()
	dec := yaml.NewDecoder(file)
	dec.KnownFields(true)
	if err := dec.Decode(f); err != nil {
		return nil, fmt.Errorf("read fault %s: %w", f.Name, err)
	}
	return f, f.check()
}

func (f *Fault) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("fault %s: %s", f.Name, fmt.Sprintf(format, args...))
	}
	if f.Title == "" || f.Breaks == "" || len(f.Services) == 0 {
		return bad("title, breaks and services are required")
	}
	if !slices.Contains([]string{endResolved, endHuman, endHealthy}, f.Expect.End) {
		return bad("expect.end is %q, not resolved, human or healthy", f.Expect.End)
	}
	for _, script := range scripts() {
		info, err := os.Stat(filepath.Join(f.Dir, script))
		if err != nil {
			return bad("%v", err)
		}
		if info.Mode()&0o111 == 0 {
			return bad("%s cannot be executed", script)
		}
	}
	texts := append([]string{f.Facts.Broken, f.Facts.Working, f.Change}, f.Processes...)
	for _, p := range f.Facts.Poison {
		texts = append(texts, p.Sees)
	}
	for _, text := range texts {
		if _, err := regexp.Compile(text); err != nil {
			return bad("%v", err)
		}
	}
	return nil
}

// human reports whether a human must be asked even when everybody does their work.
func (f *Fault) human() bool {
	if f.Expect.Human != nil {
		return *f.Expect.Human
	}
	return f.Expect.End == endHuman
}

// repairTier is the lowest tier that can repair it, or 0.
func (f *Fault) repairTier() int {
	for tier := 1; tier <= f.MaxTier; tier++ {
		if len(f.Facts.Repair[tier]) > 0 {
			return tier
		}
	}
	return 0
}

// How a run can end.
const (
	endResolved = "resolved"
	endHuman    = "human"
	endHealthy  = "healthy"
	endNone     = "none" // nothing was claimed
)

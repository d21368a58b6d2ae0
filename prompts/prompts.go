// Package prompts holds what each tier is told; an operator can replace any of it.
package prompts

import (
	"embed"
	"fmt"
	"strings"
	"sync"
	"text/template"

	"claudeops/internal/ops"
)

//go:embed *.md
var files embed.FS

// Data is what a prompt can use. It is what is true for one session: its permissions, not its tier, and live figures.
type Data struct {
	Tier        ops.Tier // its place in the chain
	May         ops.Tier // the tier whose permissions apply
	Environment string
	StateDir    string
	WorkDir     string
	ReposDir    string
	Repos       []string    // the folders in ReposDir
	RepoNotes   []ops.Notes // what the repositories say of themselves, fenced
	Originals   string      // the operator's clones, where ReposDir holds the session's own
	Notes       string
	Task        string // what the operator asked for in this cycle, or what started it
	TaskTitle   string
	DryRun      bool
	HandoffFile bool // the agent reports by handoff.json; otherwise by structured output
	Guarded     bool // every call is judged before it runs
	Services    []Service
	Changes     []string                  // since what is affected was last healthy, the nearest first
	Reflexes    []string                  // what the supervisor did before this session, or why not, one line each
	Checks      string                    // results of our own probes, fenced
	Memories    string                    // what earlier sessions learnt, fenced
	Limits      string                    // the rate limits in words
	Cooldowns   []string                  // what is left of them, one line each
	Targets     []string                  // who may take over, one line each
	Inventory   []string                  // files that no tier may change
	Volumes     []string                  // folders in which no tier may delete
	Hosts       []string                  // reachable by ssh
	Example     string                    // a valid handoff
	Endings     []string                  // valid structured outcomes
	Ask         string                    // how to ask the supervisor to act; empty: it cannot be asked
	AskQuery    string                    // how to ask a query
	Queries     []string                  // what it may ask databases: "db order id=INTEGER"
	Actions     []Action                  // what this session may ask for
	Plannable   []Action                  // what a human can approve before the next tier starts, or only reads; empty: no human is asked
	Has         func(program string) bool // whether a program is on this machine; nil: nobody knows
}

// Asked reports whether a human is asked about any of what can be planned.
func (d Data) Asked() bool {
	for _, a := range d.Plannable {
		if !a.Read {
			return true
		}
	}
	return false
}

// Action are the actions of one service.
type Action struct {
	Service string
	Names   []string
	Read    bool // trust lets agents propose them only
}

// Service is what a prompt says about one service.
type Service struct {
	Name      string
	Aliases   []string
	URL       string // of its http probe
	Host      string // whose name it needs
	Container string
	Unit      string
	Group     string
	DependsOn []string
	Checked   string // the last result of its probe
	Incident  string // an open one, in a few words
}

// Command is one command a prompt names.
type Command struct{ What, Command string }

// Number is the tier as a plain number, for the templates.
func (d Data) Number() int { return int(d.Tier) }

// Title is what the session's permissions are called.
func (d Data) Title() string { return d.May.Title() }

// ReadOnly reports whether the session may only look.
func (d Data) ReadOnly() bool { return d.May <= ops.Tier1 || d.DryRun }

// Next is the tier above, or 0.
func (d Data) Next() int {
	if d.Tier >= ops.LastTier {
		return 0
	}
	return int(d.Tier) + 1
}

// NextCan is what the next tier may do and this session may not.
func (d Data) NextCan() string {
	if d.May <= ops.Tier1 {
		return "restarting containers, changing files in the repositories"
	}
	return "restarting units, Ansible, Helm, stopping containers, the actions redeploy and apply"
}

// Repo is a repository for the examples.
func (d Data) Repo() string {
	if len(d.Repos) == 0 {
		return d.ReposDir
	}
	return strings.TrimSuffix(d.ReposDir, "/") + "/" + d.Repos[0]
}

// Fresh renders the built-in prompt of a fresh or handoff start.
func Fresh(d Data) (string, error) { return render("fresh.md", d) }

// Escalation renders the short built-in prompt with which a higher tier continues a conversation.
func Escalation(d Data) (string, error) { return render("escalation.md", d) }

// Facts renders what is known about the environment, for prompts that are not ours.
func Facts(d Data) (string, error) { return render("facts", d) }

// parsed reads the texts once: they are embedded and never change.
var parsed = sync.OnceValues(func() (*template.Template, error) {
	return template.New("prompts").Funcs(template.FuncMap{"join": strings.Join}).ParseFS(files, "*.md")
})

func render(name string, d Data) (string, error) {
	t, err := parsed()
	if err != nil {
		return "", fmt.Errorf("parse prompts: %w", err)
	}
	var b strings.Builder
	if err := t.ExecuteTemplate(&b, name, d); err != nil {
		return "", fmt.Errorf("render prompt %s: %w", name, err)
	}
	return strings.TrimSpace(b.String()) + "\n", nil
}

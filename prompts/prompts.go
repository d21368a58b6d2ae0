// Package prompts holds what each tier is told, in our words; an operator can replace any of it.
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

// Data is what a prompt can speak about.
type Data struct {
	Environment string
	StateDir    string
	ReposDir    string
	Notes       string
	Task        string // what the operator asked for in this cycle, or what started it
	TaskTitle   string
	DryRun      bool
	HandoffFile bool // the agent reports by handoff.json; otherwise by structured output
	Services    []ops.Service
	Checks      string // results of our own probes, fenced
	Example     string // a valid handoff
}

// Fresh renders the built-in prompt of a fresh or handoff start.
func Fresh(tier ops.Tier, d Data) (string, error) { return render(fmt.Sprintf("tier%d.md", tier), d) }

// Escalation renders the short built-in prompt with which a higher tier continues a conversation.
func Escalation(tier ops.Tier, d Data) (string, error) {
	return render(fmt.Sprintf("tier%d-escalation.md", tier), d)
}

// Facts renders what is known about the environment, for prompts that are not ours.
func Facts(d Data) (string, error) { return render("facts", d) }

// parsed reads the texts once: they are embedded and never change.
var parsed = sync.OnceValues(func() (*template.Template, error) { //nolint:gochecknoglobals // a constant that takes work to make
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

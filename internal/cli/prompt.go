package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"claudeops/internal/config"
	"claudeops/internal/cycle"
	"claudeops/internal/daemon"
	"claudeops/internal/decide/report"
	"claudeops/internal/ops"
)

// promptPreview is the prompt of a handler as it is printed.
type promptPreview struct {
	Handler     string          `json:"handler"`
	Environment string          `json:"environment"`
	Mode        ops.ContextMode `json:"mode"`
	Prompt      string          `json:"prompt"`
}

func (a handlers) prompt() *cobra.Command {
	var environment string
	var escalation bool
	c := &cobra.Command{
		Use: "prompt ID", Short: "Show the prompt of a handler", Args: cobra.ExactArgs(1),
		Long: `Shows the prompt that a session of the handler would start with now. Probe results, memories and cooldowns are missing: they are
read when a session starts.`,
		Example: `  claudeops handlers prompt tier1
  claudeops handlers prompt tier2 --escalation`,
		RunE: a.configured(func(_ *cobra.Command, cfg *config.Config, args []string) error {
			env, err := cfg.Environment(environment)
			if err != nil {
				return err
			}
			s, err := previewed(env.Policy, args[0], escalation)
			if err != nil {
				return err
			}
			env.Protected = daemon.Protected(cfg, env)
			now := ops.Claimed{Cycle: ops.Cycle{Environment: env.Name, Policy: env.Policy}}
			text, err := cycle.PreviewPrompt(env, now, s, cfg.Guard.Enabled)
			if err != nil {
				return err
			}
			return a.printOne(promptPreview{s.Handler, env.Name, s.ContextMode, text}, func(w io.Writer) { fmt.Fprint(w, text) })
		}),
	}
	c.Flags().StringVar(&environment, "environment", "", "environment (default: the first one configured)")
	c.Flags().BoolVar(&escalation, "escalation", false, "show the prompt with which it continues a conversation")
	return c
}

// previewed is a session of a handler that has not started. It reports as the first route to it says.
func previewed(p ops.Policy, id string, escalation bool) (ops.Session, error) {
	h, ok := p.Handler(id)
	if !ok {
		ids := ops.Map(p.Handlers, func(o ops.Handler) string { return o.ID })
		return ops.Session{}, fmt.Errorf("handler %q: %w; configured: %s", id, ops.ErrNotFound, strings.Join(ids, ", "))
	}
	if h.Human() {
		return ops.Session{}, usage(fmt.Errorf("handler %s is a human and gets no prompt", id))
	}
	mode := p.Mode
	for _, o := range p.Handlers {
		for _, target := range o.HandsTo {
			if target == id {
				mode = p.ModeOf(o.ID, id)
			}
		}
	}
	s := ops.Session{
		Handler: h.ID, Tier: h.Tier, Permissions: h.May(), Family: h.Family, Agent: h.Agent, Model: h.Model, ContextMode: ops.ContextFresh,
		Structured: mode == ops.ContextResume || h.Agent == agentCodex || h.Agent == agentCommand,
	}
	if escalation {
		s.ContextMode = ops.ContextResume
	}
	return s, nil
}

func (a handlers) handoff() *cobra.Command {
	c := &cobra.Command{Use: "handoff", Short: "The handoff file: schema, validate"}
	c.AddCommand(&cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of the handoff file",
		RunE: func(*cobra.Command, []string) error {
			_, err := a.Stdout.Write(report.HandoffSchema())
			return err
		},
	}, a.validate())
	return c
}

func (a handlers) validate() *cobra.Command {
	var tier int
	c := &cobra.Command{
		Use: "validate FILE", Short: "Check a handoff file; exit 1 with every error by JSON pointer", Args: cobra.ExactArgs(1),
		Example: `  claudeops handoff validate handoff.json
  claudeops handoff validate --tier 2 - < handoff.json`,
		RunE: func(_ *cobra.Command, args []string) error {
			if tier < 0 || tier > 3 {
				return usage(fmt.Errorf("--tier is %d: use 1, 2 or 3", tier))
			}
			raw, err := a.input(args[0])
			if err != nil {
				return err
			}
			h, found := report.Handoff(raw, ops.Tier(tier))
			for _, w := range found.Warnings {
				fmt.Fprintf(a.Stderr, "%s: warning: %s\n", args[0], w)
			}
			if !found.OK() {
				for _, e := range found.Errors {
					fmt.Fprintf(a.Stderr, "%s: %s\n", args[0], e)
				}
				return quietly(exitError)
			}
			return a.printOne(h, func(w io.Writer) {
				fmt.Fprintf(w, "valid: hands %s to %s\n", ops.Plural(len(h.ServicesAffected), "service", "services"), h.RecommendedTier)
			})
		},
	}
	c.Flags().IntVar(&tier, "tier", 0, "tier that wrote the file (default: one below recommended_tier)")
	return c
}

// input reads a small file, or stdin for "-".
func (a *app) input(name string) ([]byte, error) {
	from := a.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if os.IsNotExist(err) {
			err = ops.ErrNotFound
		}
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", name, err)
		}
		defer func() { _ = f.Close() }()
		from = f
	}
	raw, err := io.ReadAll(io.LimitReader(from, report.MaxBytes+1))
	return ops.Returning(raw, err, "read %s", name)
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/decide/escalation"
	"claudeops/internal/decide/rehearse"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func (a *app) configCommand() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Check and show the configuration"}
	c.AddCommand(a.configCheck(), a.configShow(), a.configSchema())
	return c
}

func (a *app) configCheck() *cobra.Command {
	return a.withSettings(&cobra.Command{
		Use: "check", Short: "Check the configuration; exit 3 with file, line, key and fix",
		Example: `  claudeops config check
  claudeops config check --config /etc/claudeops/claudeops.yaml`,
		RunE: func(c *cobra.Command, _ []string) error {
			found, err := a.checkConfig(c.Context())
			if err != nil {
				return err
			}
			for _, n := range found.Notes {
				fmt.Fprintln(a.Stderr, "note: "+n)
			}
			row := map[string]any{"valid": true, "file": value(found.File), "environments": found.Environments}
			return a.printOne(row, func(w io.Writer) {
				fmt.Fprintf(w, "valid: %s, %s\n", or(value(found.File), "no file, environment variables and defaults"),
					ops.Plural(found.Environments, "environment", "environments"))
			})
		},
	})
}

// checkConfig reads and checks the configuration as it is now.
func (a *app) checkConfig(ctx context.Context) (api.ConfigCheck, error) {
	o, err := a.options()
	if err != nil {
		return api.ConfigCheck{}, err
	}
	envs := o.Config.Environments()
	for _, e := range envs {
		if err := escalation.Validate(e.Policy); err != nil {
			return api.ConfigCheck{}, &codeError{exitConfig, fmt.Errorf("check handlers of %s: %w", e.Name, err)}
		}
	}
	if err := daemon.Check(o); err != nil {
		return api.ConfigCheck{}, &codeError{exitConfig, err}
	}
	out := api.ConfigCheck{Valid: true, Environments: len(envs), Problems: []string{}, Notes: append([]string{}, o.Config.Notices...)}
	if o.Config.File != "" {
		out.File = &o.Config.File
	}
	for _, f := range append(obstacles(o.Config), a.unprobed(ctx, o.Config)...) {
		out.Notes = append(out.Notes, strings.TrimSpace(fmt.Sprintf("%s: %s. %s", f.Check, f.Detail, f.Fix)))
	}
	return out, nil
}

// configRow is the result of checkConfig for the API: problems are part of it.
func (a *app) configRow(ctx context.Context) api.ConfigCheck {
	found, err := a.checkConfig(ctx)
	if err == nil {
		return found
	}
	out := api.ConfigCheck{Problems: []string{err.Error()}, Notes: []string{}}
	var wrong *config.Error
	if errors.As(err, &wrong) {
		out.Problems = nil
		for _, p := range wrong.Problems {
			out.Problems = append(out.Problems, p.String())
		}
	}
	return out
}

func (a *app) configShow() *cobra.Command {
	var origin bool
	c := a.withSettings(&cobra.Command{
		Use: "show", Short: "Show every setting; secrets are redacted",
		RunE: a.configured(func(_ *cobra.Command, cfg *config.Config, _ []string) error {
			header := tabbed("KEY", "VALUE")
			if origin {
				header = tabbed("KEY", "VALUE", "ORIGIN")
			}
			return printRows(a, cfg.Show(), header, func(s config.Setting) string {
				if origin {
					return tabbed(s.Key, shorten(s.Value, 80), s.Origin)
				}
				return tabbed(s.Key, shorten(s.Value, 80))
			})
		}),
	})
	c.Flags().BoolVar(&origin, "origin", false, "show where each value comes from")
	return c
}

// withSettings gives a command a flag for every setting.
func (a *app) withSettings(c *cobra.Command) *cobra.Command { return a.withFlags(c, config.Flags) }

// withFlags gives a command flags for the settings that mean something to it. They are added when the command is chosen.
func (a *app) withFlags(c *cobra.Command, flags func() []config.Flag) *cobra.Command {
	a.flags[c] = flags
	return c
}

// addFlags gives the command that the arguments choose its flags. The help may be about any command.
func (a *app) addFlags(root *cobra.Command, args []string) {
	chosen, _, err := root.Find(args)
	if err != nil || chosen == root { // help, completion, or a wrong word
		a.addAllFlags(root)
		return
	}
	a.addFlagsOf(chosen)
}

func (a *app) addAllFlags(c *cobra.Command) {
	a.addFlagsOf(c)
	for _, sub := range c.Commands() {
		a.addAllFlags(sub)
	}
}

func (a *app) addFlagsOf(c *cobra.Command) {
	c.Flags().SortFlags = false // its own come first
	flags := a.flags[c]
	if flags == nil {
		return
	}
	for _, s := range flags() {
		v := &settingValue{app: a, key: s.Key, flag: s.Bool}
		f := c.Flags().VarPF(v, s.Name, "", flagDoc(s))
		if s.Bool {
			f.NoOptDefVal = "true"
		}
	}
}

// fewFlags are the settings that the help of a command shows which takes all of them.
func fewFlags() []string {
	return []string{
		"apprise-urls-file", "approval-tier", "budget-day-usd", "claude-bin", "dry-run", "interval", "listen", "max-tier",
		"repos-dir", "state-dir",
	}
}

// helpful is cobra's help. Of a command that takes every setting as a flag it shows a few; with --verbose, all.
func (a *app) helpful(root *cobra.Command) {
	usual := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		hidden := 0
		for _, sub := range root.Commands() {
			sub.Hidden = sub.Hidden || c == root && sub.GroupID == deeper
		}
		if len(a.hidable(c)) > 0 && !a.verbose {
			c.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if slices.Contains(a.hidable(c), f.Name) {
					f.Hidden, hidden = true, hidden+1
				}
			})
		}
		usual(c, args)
		if hidden > 0 {
			fmt.Fprintf(c.OutOrStdout(), "\n%d more settings can be given as flags: '%s --help --verbose' lists them, and "+
				"docs/configuration.md explains them.\n", hidden, c.CommandPath())
		}
	})
}

// hidable are the flags of a command that its help leaves out.
func (a *app) hidable(c *cobra.Command) []string {
	flags := a.flags[c]
	if flags == nil || c.Flags().Lookup("interval") == nil {
		return nil
	}
	var out []string
	for _, f := range flags() {
		if !slices.Contains(fewFlags(), f.Name) {
			out = append(out, f.Name)
		}
	}
	return out
}

// withState lets every command from c down that does something and has no flags for settings say where the database is.
func (a *app) withState(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.withState(sub)
	}
	if c.RunE != nil && a.flags[c] == nil {
		a.withFlags(c, config.StateFlags)
	}
}

// flagDoc is one line of help: the first sentence, and where else the value can come from.
func flagDoc(s config.Flag) string {
	// A word in backquotes would be taken for the name of the value.
	text, _, _ := strings.Cut(strings.ReplaceAll(s.Doc, "`", ""), ". ")
	text = strings.TrimSuffix(text, ".")
	var from []string
	if s.Env != "" {
		from = append(from, "env "+s.Env)
	}
	if s.Default != "" {
		from = append(from, "default "+s.Default)
	}
	if len(from) == 0 {
		return text
	}
	return fmt.Sprintf("%s (%s)", text, strings.Join(from, ", "))
}

// settingValue keeps what a flag was set to; the configuration checks it with everything else.
type settingValue struct {
	app  *app
	key  string
	flag bool
}

func (v *settingValue) String() string { return "" }

func (v *settingValue) Set(s string) error {
	v.app.settings[v.key] = s
	return nil
}

func (v *settingValue) Type() string {
	if v.flag {
		return "bool"
	}
	return "value"
}

func (a *app) rehearseCommand() *cobra.Command {
	var against, file, cycle string
	since := time.Now().AddDate(0, 0, -90)
	c := &cobra.Command{
		Use:   "rehearse --config FILE",
		Short: "Try a configuration against the recorded cycles; exit 0 no difference, 8 different",
		Long: `Takes every recorded decision again under the configuration FILE and lists what would be different: steps of cycles, decisions
about escalations, answers of the guard to tool calls. Nothing is changed, and no model is asked. Probe results, what agents said and
what people answered stay as recorded, so what follows a step that differs cannot be rehearsed.`,
		Example: `  claudeops rehearse --config new.yaml
  claudeops rehearse --config new.yaml --since 30d -o json
  claudeops rehearse --config new.yaml --against old.yaml --db copy.db   in a check of a repository`,
		RunE: func(c *cobra.Command, _ []string) error {
			span := daemon.Span{Since: since}
			if cycle != "" {
				id, err := cycleNumber(cycle)
				if err != nil {
					return err
				}
				span = daemon.Span{Cycle: ops.CycleID(id)}
			}
			return a.rehearse(c.Context(), against, file, span)
		},
	}
	c.Flags().StringVar(&against, "against", "", "compare with what this configuration would do (default: with what was done)")
	c.Flags().StringVar(&file, "db", "", "copy of the database to read (default: the database of the configuration)")
	c.Flags().StringVar(&cycle, "cycle", "", "this cycle only")
	sinceFlag(c, &since, "how far back (default 90d)")
	return a.withFlags(c, config.StateFlags)
}

func (a *app) rehearse(ctx context.Context, against, file string, span daemon.Span) error {
	after, err := a.judging(a.configPath)
	if err != nil {
		return err
	}
	var before *config.Config
	if against != "" {
		if before, err = a.judging(against); err != nil {
			return err
		}
	}
	o := a.storeOptions(after)
	if file != "" {
		o.URL, o.Path = "", file
	}
	s, err := store.OpenReadOnly(ctx, o)
	if err != nil {
		return err
	}
	if span.Cycle > 0 {
		_, err = s.Journal.Cycle(ctx, span.Cycle)
	}
	var out rehearse.Report
	if err == nil {
		out, err = daemon.Rehearse(ctx, s.Reports, before, after, span)
	}
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	if err := a.printOne(out, func(w io.Writer) { a.printRehearsal(w, out) }); err != nil || out.Equal {
		return err
	}
	return quietly(exitDifferent)
}

// judging reads a configuration and checks the rules of its guard.
func (a *app) judging(file string) (*config.Config, error) {
	cfg, err := a.loadFrom(file, nil)
	if err != nil {
		return nil, err
	}
	if _, err := daemon.Rules(cfg); err != nil {
		return nil, &codeError{exitConfig, err}
	}
	return cfg, nil
}

func (a *app) printRehearsal(w io.Writer, r rehearse.Report) {
	fmt.Fprintln(w, r.Summary())
	for _, n := range r.Notes {
		fmt.Fprintln(w, "note: "+clean(n))
	}
	for _, d := range r.Differences {
		where := fmt.Sprintf("C-%d", d.Cycle)
		if d.Step > 0 {
			where += fmt.Sprintf(" step %d", d.Step)
		}
		fmt.Fprintf(w, "\n%s  %s  %s  %s\n", where, a.screen.when(&d.At), clean(d.Environment), ops.Plural(d.Count, "time", "times"))
		if d.Command != "" {
			fmt.Fprintf(w, "  %s: %s\n", d.Tier, clean(d.Command))
		}
		fmt.Fprintf(w, "  before: %s\n  after:  %s\n", clean(d.Before), clean(d.After))
		if d.Setting != "" {
			fmt.Fprintf(w, "  because of %s\n", clean(d.Setting))
		}
		if d.CutShort {
			fmt.Fprintf(w, "  differs at step %d; what follows cannot be rehearsed\n", d.Step)
		}
	}
	if r.Others > 0 {
		fmt.Fprintf(w, "\nand %s more\n", ops.Plural(r.Others, "difference", "differences"))
	}
}

func (a *app) handlersCommand() *cobra.Command {
	c := &cobra.Command{Use: "handlers", Aliases: []string{"handler"}, Short: "Handlers and escalation routes: list, prompt"}
	c.AddCommand(a.handlersList(), a.handlersPrompt())
	return c
}

// handlerRow is a handler as it is printed.
type handlerRow struct {
	ID          string        `json:"id"`
	GoodFor     string        `json:"good_for,omitempty"`
	Tier        ops.Tier      `json:"tier"`
	Title       string        `json:"title"`
	Family      string        `json:"family"`
	Agent       string        `json:"agent"`
	Model       string        `json:"model,omitempty"`
	Permissions ops.Tier      `json:"permissions,omitempty"`
	Roles       []string      `json:"roles"`
	HandsTo     []string      `json:"hands_to"`
	Fallback    []string      `json:"fallback"`
	Command     []string      `json:"command,omitempty"`
	OwnPrompt   bool          `json:"own_prompt,omitempty"`
	Limits      handlerLimits `json:"limits,omitzero"`
}

// handlerLimits are the limits of one handler; a missing one is the general limit.
type handlerLimits struct {
	Session   string  `json:"session,omitempty"`
	Idle      string  `json:"idle,omitempty"`
	Tool      string  `json:"tool,omitempty"`
	BudgetUSD float64 `json:"budget_usd,omitempty"`
}

func rowOf(p ops.Policy, h ops.Handler) handlerRow {
	limit := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return d.String()
	}
	row := handlerRow{
		ID: h.ID, GoodFor: h.GoodFor,
		Tier: h.Tier, Title: h.Tier.Title(), Family: h.Family, Agent: h.Agent, Model: h.Model, Permissions: h.May(),
		Roles: p.RolesOf(h.ID), HandsTo: append([]string{}, h.HandsTo...), Fallback: append([]string{}, h.Fallback...),
		Command: h.Command, OwnPrompt: h.Prompt != "",
		Limits: handlerLimits{Session: limit(h.Limits.Wall), Idle: limit(h.Limits.Idle), Tool: limit(h.Limits.Tool), BudgetUSD: h.BudgetUSD},
	}
	if h.Human() {
		row.Title, row.Permissions = ops.HumanTier.Title(), 0
	}
	return row
}

func (a *app) handlersList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List handlers with tier, agent, model and escalation targets",
		RunE: func(*cobra.Command, []string) error {
			p, err := a.policy()
			if err != nil {
				return err
			}
			rows := api.Rows(p.Handlers, func(h ops.Handler) handlerRow { return rowOf(p, h) })
			header := tabbed("ID", "TIER", "AGENT", "FAMILY", "MODEL", "MAY", "HANDS TO", "FALLBACK", "ROLE")
			return printRows(a, rows, header, func(r handlerRow) string {
				tier, may := fmt.Sprint(int(r.Tier)), r.Permissions.Title()
				if r.Tier == ops.HumanTier {
					tier = "-"
				}
				if r.Agent == ops.AgentHuman {
					may = "everything"
				}
				return tabbed(r.ID, tier, r.Agent, r.Family, or(r.Model, "-"), may,
					or(strings.Join(r.HandsTo, ","), "-"), or(strings.Join(r.Fallback, ","), "-"), or(strings.Join(r.Roles, ","), "-"))
			})
		},
	}
}

// policy is the policy of the first environment; handlers are the same in all.
func (a *app) policy() (ops.Policy, error) {
	cfg, err := a.load()
	if err != nil {
		return ops.Policy{}, err
	}
	return cfg.Environments()[0].Policy, nil
}

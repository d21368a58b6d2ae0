package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/guard"
	"claudeops/internal/ops"
)

func (a guards) commands() *cobra.Command {
	c := &cobra.Command{Use: "guard", Short: "Check what an agent may do: check, eval, rules"}
	c.AddCommand(a.check(), a.eval(), a.rules())
	return c
}

// verdict is the answer about one command.
type verdict struct {
	ID      string         `json:"id,omitempty"`
	Verdict guard.Verdict  `json:"verdict"`
	Rule    string         `json:"rule"`
	Reason  string         `json:"reason"`
	Effects []guard.Effect `json:"effects,omitempty"`
	Walls   string         `json:"walls"` // on or off: whether it is the answer to a session behind walls
}

func (a guards) check() *cobra.Command {
	var tier int
	var facts, walls string
	var dryRun bool
	c := &cobra.Command{
		Use: "check --tier N -- 'COMMAND'", Short: "Explain the verdict on one shell command; exit 0 allow, 7 deny", Args: cobra.MinimumNArgs(1),
		Example: `  claudeops guard check --tier 1 -- 'docker restart web'
  claudeops guard check --tier 3 --facts facts.yaml -- 'ansible-playbook playbooks/web.yml'`,
		RunE: func(_ *cobra.Command, args []string) error {
			if tier < 1 || tier > 3 {
				return usage(fmt.Errorf("--tier is %d: use 1, 2 or 3", tier))
			}
			g, f, err := a.guarded(facts, walls)
			if err != nil {
				return err
			}
			f.DryRun = f.DryRun || dryRun
			d := daemon.Verdict(g, ops.Tier(tier), strings.Join(args, " "), f)
			v := verdict{Verdict: d.Verdict, Rule: d.Rule, Reason: d.Reason, Effects: d.Effects, Walls: wallsOf(f)}
			err = a.printOne(v, func(w io.Writer) {
				fmt.Fprintf(w, "%s  %s\n%s\n%s\n", d.Verdict, d.Rule, d.Reason, answersFor(f))
				for _, e := range d.Effects {
					fmt.Fprintf(w, "reserves: %s of %s\n", e.Kind, e.Service)
				}
			})
			if err != nil || d.Allowed() {
				return err
			}
			return quietly(exitBlocked)
		},
	}
	c.Flags().IntVar(&tier, "tier", 1, "tier that would run the command")
	c.Flags().StringVar(&facts, "facts", "", "file with facts to assume (default: from the configuration)")
	c.Flags().StringVar(&walls, "walls", "", wallsUsage)
	c.Flags().BoolVar(&dryRun, "dry-run", false, "check as in a dry run")
	return c
}

func (a guards) eval() *cobra.Command {
	var facts, walls string
	c := &cobra.Command{
		Use: "eval", Short: "Check commands from stdin, as JSON lines {\"id\",\"tier\",\"command\"}; nothing is run or recorded",
		Example: `  claudeops guard eval --facts facts.yaml < in.jsonl > out.jsonl`,
		RunE: func(*cobra.Command, []string) error {
			g, f, err := a.guarded(facts, walls)
			if err != nil {
				return err
			}
			return evaluate(g, f, a.Stdin, a.Stdout)
		},
	}
	c.Flags().StringVar(&facts, "facts", "", "file with facts to assume (default: from the configuration)")
	c.Flags().StringVar(&walls, "walls", "", wallsUsage)
	return c
}

const wallsUsage = "answer for a session behind walls, on or off (default: as this machine has them)"

// wallsOf says for which sessions the guard answers.
func wallsOf(f guard.Facts) string {
	if f.Walled {
		return "on"
	}
	return "off"
}

func answersFor(f guard.Facts) string {
	if f.Walled {
		return "This is the answer behind walls; --walls off asks for a session without them."
	}
	return "This is the answer without walls; --walls on asks for a session behind them."
}

// evaluate answers every line in order; a line that it cannot read is denied.
func evaluate(g *guard.Guard, f guard.Facts, in io.Reader, out io.Writer) error {
	reader, writer := bufio.NewReader(in), bufio.NewWriter(out)
	enc := json.NewEncoder(writer)
	enc.SetEscapeHTML(false)
	for {
		line, err := reader.ReadBytes('\n')
		if strings.TrimSpace(string(line)) != "" {
			if err := enc.Encode(evaluated(g, f, line)); err != nil {
				return fmt.Errorf("write verdict: %w", err)
			}
		}
		if errors.Is(err, io.EOF) {
			return writer.Flush()
		}
		if err != nil {
			return fmt.Errorf("read commands: %w", err)
		}
	}
}

func evaluated(g *guard.Guard, f guard.Facts, line []byte) verdict {
	var q struct {
		ID      string   `json:"id"`
		Tier    ops.Tier `json:"tier"`
		Command *string  `json:"command"`
	}
	err := json.Unmarshal(line, &q)
	switch {
	case err != nil:
		return verdict{ID: q.ID, Verdict: guard.Deny, Rule: "R1", Reason: fmt.Sprintf("the line cannot be read: %v", err), Walls: wallsOf(f)}
	case q.Command == nil:
		return verdict{ID: q.ID, Verdict: guard.Deny, Rule: "R1", Reason: "the line has no command", Walls: wallsOf(f)}
	}
	d := daemon.Verdict(g, q.Tier, *q.Command, f)
	return verdict{ID: q.ID, Verdict: d.Verdict, Rule: d.Rule, Reason: d.Reason, Walls: wallsOf(f)}
}

func (a guards) rules() *cobra.Command {
	return &cobra.Command{
		Use: "rules", Short: "Print the known programs with the tier that each needs, and the default tool lists",
		RunE: func(*cobra.Command, []string) error {
			g, _, err := a.guarded("", "off")
			if err != nil {
				return err
			}
			_, err = io.WriteString(a.Stdout, g.Page()+"\nDefault tool lists of the tiers:\n"+config.DefaultTools())
			return err
		},
	}
}

// guarded makes the guard of the configuration, and the facts it uses. Walls are on, off, or empty for those of this machine.
func (a guards) guarded(file, walls string) (*guard.Guard, guard.Facts, error) {
	if walls != "" && walls != "on" && walls != "off" {
		return nil, guard.Facts{}, usage(fmt.Errorf("--walls is %q: use on or off", walls))
	}
	cfg, err := a.load()
	if err != nil {
		return nil, guard.Facts{}, err
	}
	rules, err := daemon.Rules(cfg)
	if err != nil {
		return nil, guard.Facts{}, &codeError{exitConfig, err}
	}
	g, err := guard.New(rules)
	if err != nil {
		return nil, guard.Facts{}, fmt.Errorf("make guard: %w", err)
	}
	walled := walls == "on" || walls == "" && daemon.Walled(cfg)
	if file == "" {
		f := daemon.Facts(cfg, cfg.Environments()[0])
		f.Walled = walled
		return g, f, nil
	}
	raw, err := a.input(file)
	if err != nil {
		return nil, guard.Facts{}, err
	}
	f, err := guard.ParseFacts(raw)
	if err != nil {
		return nil, guard.Facts{}, &codeError{exitConfig, fmt.Errorf("%s: %w", file, err)}
	}
	f.Walled = walled
	return g, f, nil
}

func (a cooldowns) commands() *cobra.Command {
	c := &cobra.Command{Use: "cooldowns", Aliases: []string{"cooldown"}, Short: "List and clear repair rate limits"}
	c.AddCommand(a.list(), a.clear())
	return c
}

func (a cooldowns) list() *cobra.Command {
	short := "List services that were restarted or redeployed recently, with how often it is still allowed"
	header := tabbed("ENVIRONMENT", "SERVICE", "ACTION", "LEFT", "NEXT POSSIBLE")
	return newListing(a.app, short, "/cooldowns", header, func(x api.Cooldown) string {
		return tabbed(x.Environment, x.Service, x.Action, fmt.Sprint(x.Left), or(a.screen.when(x.Until), "now"))
	}).Command
}

func (a cooldowns) clear() *cobra.Command {
	var environment string
	var reason *string
	c := a.anywhere(&cobra.Command{
		Use: "clear SERVICE restart|redeployment|ACTION", Short: "Reset the rate limit of a service; recorded with your reason",
		Long:    "Resets a rate limit of a service: that of restarts, of redeployments, or of an action that has a cooldown of its own.",
		Args:    cobra.ExactArgs(2),
		Example: `  claudeops cooldowns clear jellyfin restart --reason "the disk was replaced"`,
		RunE: on(a.change, func(c *cobra.Command, s *client, args []string) error {
			got, err := post[struct{ Cleared int }](c.Context(), s, "/cooldowns/clear", map[string]any{
				"environment": environment, "service": args[0], "action": args[1], "reason": *reason,
			})
			if err == nil {
				fmt.Fprintf(a.Stderr, "%s no longer counted\n", ops.Plural(got.Cleared, "entry is", "entries are"))
			}
			return err
		}),
	})
	c.Flags().StringVar(&environment, "environment", "", "environment of the service (default: the first one configured)")
	reason = a.reasonFlag(c, "reason")
	return c
}

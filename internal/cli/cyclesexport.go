package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/transcript/atif"
)

// exportATIF is the only format so far.
const exportATIF = "atif"

func (a *app) cyclesExport() *cobra.Command {
	var format string
	c := &cobra.Command{
		Use: "export ID", Short: "Print a cycle with the output of its sessions, for other programs", Args: cobra.ExactArgs(1),
		Long: `Prints a cycle as one JSON document in the Agent Trajectory Interchange Format (ATIF v1.7), for viewers, evaluations and training.
The steps of the document are those of the supervisor, which starts the sessions; each session is an embedded trajectory with its messages,
tool calls, results and figures. Secrets are removed as in the transcript.`,
		Example: `  claudeops cycles export 42 --format atif > cycle-42.json`,
		RunE: func(c *cobra.Command, args []string) error {
			if format != exportATIF {
				return usage(fmt.Errorf("--format is %q: use %s", format, exportATIF))
			}
			n, err := number(args[0])
			if err != nil {
				return err
			}
			return a.read(c.Context(), func(s *client) error {
				x, err := s.Cycle(c.Context(), ops.CycleID(n))
				if err != nil {
					return err
				}
				story, err := storyOf(c.Context(), s, x, a.Version)
				if err != nil {
					return err
				}
				e := json.NewEncoder(a.Stdout)
				e.SetEscapeHTML(false)
				e.SetIndent("", "  ")
				return e.Encode(atif.Export(story))
			})
		},
	}
	c.Flags().StringVar(&format, "format", exportATIF, "format of the document")
	return c
}

// transcriptReader reads the lines of a session.
type transcriptReader interface {
	Transcript(ctx context.Context, id ops.SessionID, after int64, limit int) ([]api.Line, error)
}

// storyOf reads everything that the document of a cycle is made from.
func storyOf(ctx context.Context, s transcriptReader, x api.CycleReport, version string) (atif.Cycle, error) {
	out := atif.Cycle{
		ID: x.ID, Environment: x.Environment, Title: x.Title, Trigger: x.Trigger, Status: string(x.Status), Reason: value(x.Reason),
		Prompt: value(x.Prompt), Created: x.CreatedAt, Ended: x.EndedAt, SupervisorVersion: version,
	}
	for _, d := range x.Escalations {
		out.Decisions = append(out.Decisions, atif.Decision{Session: d.SessionID, Verdict: d.Decision, Reason: d.Reason, At: d.At})
	}
	for _, r := range x.Sessions {
		one := atif.Session{
			ID: r.ID, Parent: r.ParentSessionID, Tier: int(r.Tier), Role: r.Role, Handler: r.Handler, Agent: r.Agent, Model: r.Model,
			Version: value(r.CLIVersion), Conversation: value(r.SessionID), ContextMode: r.ContextMode, Status: string(r.Status),
			Outcome: value(r.Outcome), Error: value(r.Error), Started: r.StartedAt, Ended: r.EndedAt, Turns: r.NumTurns, DurationMS: r.DurationMS,
			CostUSD: r.CostUSD, Input: r.InputTokens, Output: r.OutputTokens, CacheRead: r.CacheReadTokens, CacheWrite: r.CacheWriteTokens,
		}
		for after := int64(0); ; {
			lines, err := s.Transcript(ctx, ops.SessionID(r.ID), after, 1000)
			if err != nil {
				return out, err
			}
			for _, l := range lines {
				after = l.Seq
				one.Lines = append(one.Lines, atif.Line{At: l.At, Text: l.Line})
			}
			if len(lines) == 0 {
				break
			}
		}
		out.Sessions = append(out.Sessions, one)
	}
	return out, nil
}

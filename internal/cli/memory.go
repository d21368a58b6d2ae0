package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func (a *app) memoryCommand() *cobra.Command {
	c := &cobra.Command{Use: "memory", Aliases: []string{"memories"}, Short: "What is remembered for later sessions: list, add, rm, export"}
	c.AddCommand(a.memoryList("list", "List what is remembered, newest first"), a.memoryAdd(), a.memoryRemove(), a.memoryExport())
	return c
}

func (a *app) memoryList(use, short string) *cobra.Command {
	f := store.MemoryFilter{}
	c := &cobra.Command{
		Use: use, Short: short,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.looking(c.Context(), func(s journal) error {
				found, err := s.Memories(c.Context(), f)
				if err != nil {
					return fmt.Errorf("list memories: %w", err)
				}
				var rows []any
				for _, m := range found {
					rows = append(rows, api.MemoryRow(m))
				}
				return a.print(rows, tabbed("ID", "CATEGORY", "SERVICE", "SURE", "SOURCE", "EXPIRES", "OBSERVATION"), func(n int) string {
					m := found[n]
					return tabbed(fmt.Sprint(m.ID), m.Category, or(m.Service, "-"), fmt.Sprintf("%.0f%%", 100*m.Confidence), m.Source,
						or(stamp(m.ExpiresAt), "never"), shorten(m.Observation, 90))
				})
			})
		},
	}
	c.Flags().StringVar(&f.Environment, "environment", "", "only this environment")
	c.Flags().StringVar(&f.Service, "service", "", "only this service")
	c.Flags().StringVar(&f.Category, "category", "", "only this category")
	c.Flags().BoolVar(&f.All, "all", false, "also what has expired")
	c.Flags().IntVar(&f.Limit, "limit", 50, "how many, at most 200")
	return c
}

func (a *app) memoryAdd() *cobra.Command {
	m := ops.Memory{Source: "operator"}
	var keep time.Duration
	c := &cobra.Command{
		Use: "add TEXT", Short: "Remember something for later sessions", Args: cobra.ExactArgs(1),
		Example: `  claudeops memory add --service jellyfin "the first start after an upgrade takes ten minutes"`,
		RunE: func(c *cobra.Command, args []string) error {
			if m.Confidence < 0 || m.Confidence > 1 {
				return usage(fmt.Errorf("--confidence is %v: use 0 to 1", m.Confidence))
			}
			if args[0] == "" {
				return usage(errors.New("the text is empty"))
			}
			m.Observation, m.CreatedAt = args[0], time.Now()
			if keep > 0 {
				m.ExpiresAt = ops.Ptr(m.CreatedAt.Add(keep))
			}
			return a.acting(c.Context(), func(s hands) error {
				id, err := s.AddMemory(c.Context(), m)
				if err != nil {
					return fmt.Errorf("add memory: %w", err)
				}
				fmt.Fprintf(a.Stderr, "memory %d is kept\n", id)
				return nil
			})
		},
	}
	c.Flags().StringVar(&m.Environment, "environment", "default", "which environment")
	c.Flags().StringVar(&m.Service, "service", "", "what it is about")
	c.Flags().StringVar(&m.Category, "category", "note", "what kind of knowledge, one word")
	c.Flags().Float64Var(&m.Confidence, "confidence", 0.9, "how sure, 0 to 1")
	c.Flags().DurationVar(&keep, "for", 0, "how long to keep it (default for ever)")
	return c
}

func (a *app) memoryRemove() *cobra.Command {
	return &cobra.Command{
		Use: "rm ID", Short: "Forget something", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := number(args[0])
			if err != nil {
				return err
			}
			return a.acting(c.Context(), func(s hands) error {
				if err := s.RemoveMemory(c.Context(), id); err != nil {
					return fmt.Errorf("remove memory %d: %w", id, err)
				}
				fmt.Fprintf(a.Stderr, "memory %d is forgotten\n", id)
				return nil
			})
		},
	}
}

func (a *app) memoryExport() *cobra.Command {
	return &cobra.Command{
		Use: "export", Short: "Print everything that is remembered as JSON lines",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.looking(c.Context(), func(s journal) error {
				a.output = "jsonl"
				var rows []any
				for before := int64(0); ; {
					found, err := s.Memories(c.Context(), store.MemoryFilter{All: true, Before: before, Limit: 200})
					if err != nil {
						return fmt.Errorf("export memories: %w", err)
					}
					for _, m := range found {
						rows = append(rows, api.MemoryRow(m))
						before = m.ID
					}
					if len(found) < 200 {
						return a.print(rows, "", nil)
					}
				}
			})
		},
	}
}

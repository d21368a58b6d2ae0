package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// noticeRow is a notice as it is printed.
type noticeRow struct {
	ID          int64          `json:"id"`
	CycleID     *int64         `json:"cycle_id"`
	Kind        ops.NoticeKind `json:"kind"`
	Level       string         `json:"level"`
	Environment string         `json:"environment,omitempty"`
	Service     string         `json:"service,omitempty"`
	Target      string         `json:"target,omitempty"`
	Status      string         `json:"status"`
	Attempts    int            `json:"attempts"`
	Error       string         `json:"error,omitempty"`
	CreatedAt   time.Time      `json:"created_at"`
	SentAt      *time.Time     `json:"sent_at"`
	Title       string         `json:"title"`
	Body        string         `json:"body"`
}

func noticeRowOf(n ops.Notice) noticeRow {
	return noticeRow{
		n.ID, (*int64)(n.CycleID), n.Kind, string(n.Level), n.Environment, n.Service, string(n.Target), string(n.Status), n.Attempts, n.Error,
		n.CreatedAt, n.SentAt, n.Title, n.Body,
	}
}

func (a *app) notifyList() *cobra.Command {
	var status string
	var limit int
	c := &cobra.Command{
		Use: "list", Short: "List notices, newest first; --status dead shows those that were given up",
		RunE: func(c *cobra.Command, _ []string) error {
			switch ops.NoticeStatus(status) {
			case "", ops.NoticePending, ops.NoticeSent, ops.NoticeDead, ops.NoticeSkipped:
			default:
				return usage(fmt.Errorf("--status is %q: use pending, sent, dead or skipped", status))
			}
			return a.looking(c.Context(), func(s journal) error {
				found, err := s.NoticeList(c.Context(), store.NoticeFilter{Status: ops.NoticeStatus(status), Limit: limit})
				if err != nil {
					return fmt.Errorf("list notices: %w", err)
				}
				var rows []any
				for _, n := range found {
					rows = append(rows, noticeRowOf(n))
				}
				return a.print(rows, tabbed("ID", "STATUS", "LEVEL", "KIND", "AT", "TRIES", "TITLE", "ERROR"), func(i int) string {
					n := found[i]
					return tabbed(fmt.Sprint(n.ID), string(n.Status), string(n.Level), string(n.Kind), stamp(&n.CreatedAt), fmt.Sprint(n.Attempts),
						shorten(n.Title, 60), shorten(n.Error, 60))
				})
			})
		},
	}
	c.Flags().StringVar(&status, "status", "", "only pending, sent, dead or skipped ones")
	c.Flags().IntVar(&limit, "limit", 50, "how many, at most 200")
	return c
}

func (a *app) notifyRetry() *cobra.Command {
	var dead bool
	c := &cobra.Command{
		Use: "retry [ID…]", Short: "Send notices again that were given up", Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if dead == (len(args) > 0) {
				return usage(errors.New("name notices by their id, or give --dead for all that were given up"))
			}
			var ids []int64
			for _, arg := range args {
				id, err := number(arg)
				if err != nil {
					return err
				}
				ids = append(ids, id)
			}
			return a.acting(c.Context(), func(s hands) error {
				if dead {
					found, err := s.NoticeList(c.Context(), store.NoticeFilter{Status: ops.NoticeDead, Limit: 200})
					if err != nil {
						return fmt.Errorf("list notices: %w", err)
					}
					for _, n := range found {
						ids = append(ids, n.ID)
					}
				}
				for _, id := range ids {
					if err := s.RetryNotice(c.Context(), id, time.Now()); err != nil {
						return fmt.Errorf("retry notice %d: %w", id, err)
					}
				}
				fmt.Fprintf(a.Stderr, "%d notices are sent again\n", len(ids))
				return a.wake(c.Context())
			})
		},
	}
	c.Flags().BoolVar(&dead, "dead", false, "all that were given up")
	return c
}

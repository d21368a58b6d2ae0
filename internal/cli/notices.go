package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func (a *app) notifyList() *cobra.Command {
	header := tabbed("ID", "STATUS", "LEVEL", "KIND", "AT", "TRIES", "TITLE", "ERROR")
	short := "List notifications, newest first; --status dead lists failed ones"
	return newListing(a, "list", short, "/notifications", header, func(n api.Notification) string {
		return tabbed(fmt.Sprint(n.ID), n.Status, n.Level, string(n.Kind), a.screen.when(&n.CreatedAt), fmt.Sprint(n.Attempts),
			shorten(n.Title, 60), shorten(value(n.Error), 60))
	}).by("status", "list this status only: pending, sent, dead or skipped", noticeStatuses()...).limit(50)
}

func noticeStatuses() []string {
	return wordsOf([]ops.NoticeStatus{ops.NoticePending, ops.NoticeSent, ops.NoticeDead, ops.NoticeSkipped})
}

// recordTest records who took a test: it is the proof that people are told.
func (a *app) recordTest(ctx context.Context, n ops.Notice, took []string) error {
	return a.writing(ctx, func(s *store.Store, _ *config.Config) (err error) {
		now := s.Clock()
		n.CreatedAt, n.NextAt = now, now.Add(time.Hour) // nobody else is to send it
		if n.ID, err = s.AddNotice(ctx, n); err != nil {
			return err
		}
		n.Status, n.Attempts, n.SentAt = ops.NoticeSent, 1, &now
		for _, to := range took {
			n.Deliveries = append(n.Deliveries, ops.Delivery{Route: "first", To: to, At: now})
		}
		return s.SettleNotice(ctx, n, nil)
	})
}

func (a *app) notifyCommand() *cobra.Command {
	c := &cobra.Command{Use: "notify", Short: "Notifications: test, list"}
	c.AddCommand(&cobra.Command{
		Use: "test", Short: "Send a test notification to every configured target",
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, _ []string) error {
			if len(cfg.AppriseURLs) == 0 && cfg.AppriseAPI == "" {
				return &codeError{exitConfig, errors.New("no target is configured: add one to notify.apprise_urls (CLAUDEOPS_APPRISE_URLS), such as " +
					"ntfys://ntfy.sh/a-name-nobody-guesses")}
			}
			text := notice.Test()
			sent := ops.Notice{Kind: ops.NoticeTest, Level: ops.LevelInfo, Title: text.Title, Body: text.Body, CreatedAt: time.Now()}
			took, err := daemon.Sender(cfg).Send(c.Context(), sent)
			if err != nil {
				return fmt.Errorf("send test notification: %w", err)
			}
			fmt.Fprintf(a.Stderr, "sent to %s\n", strings.Join(took, ", "))
			if err := a.recordTest(c.Context(), sent, took); err != nil && !errors.Is(err, ops.ErrNotFound) {
				fmt.Fprintf(a.Stderr, "it is not in the list of notifications: %s\n", clean(err.Error()))
			}
			return nil
		}),
	})
	c.AddCommand(a.notifyList())
	return c
}

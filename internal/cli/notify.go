package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/daemon"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

func (a *app) notifyCommand() *cobra.Command {
	c := &cobra.Command{Use: "notify", Short: "Notifications: test, list, retry"}
	c.AddCommand(&cobra.Command{
		Use: "test", Short: "Send a test notification to every configured target",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			if len(cfg.AppriseURLs) == 0 && cfg.AppriseAPI == "" {
				return &codeError{exitConfig, errors.New("no target is configured: set CLAUDEOPS_APPRISE_URLS or CLAUDEOPS_APPRISE_API")}
			}
			text := notice.Test()
			err = daemon.Sender(cfg).Send(c.Context(), ops.Notice{
				Kind: ops.NoticeTest, Level: ops.LevelInfo, Title: text.Title, Body: text.Body, CreatedAt: time.Now(),
			})
			if err != nil {
				return fmt.Errorf("send test notification: %w", err)
			}
			fmt.Fprintln(a.Stderr, "sent")
			return nil
		},
	})
	c.AddCommand(a.notifyList(), a.notifyRetry())
	return c
}

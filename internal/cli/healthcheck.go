package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/config"
)

func (a *app) healthcheckCommand() *cobra.Command {
	return a.withFlags(&cobra.Command{
		Use: "healthcheck", Short: "Check whether the daemon is ready; exit 0 or 1",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			host, port, err := net.SplitHostPort(cfg.Listen)
			if err != nil {
				return fmt.Errorf("read listen address: %w", err)
			}
			if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
				host = "127.0.0.1"
			}
			ctx, cancel := context.WithTimeout(c.Context(), 5*time.Second)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/readyz", nil)
			if err != nil {
				return fmt.Errorf("ask daemon: %w", err)
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				return fmt.Errorf("ask daemon: %w", err)
			}
			defer func() { _ = answer.Body.Close() }()
			body, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
			if err != nil {
				return fmt.Errorf("read answer: %w", err)
			}
			if answer.StatusCode != http.StatusOK {
				return fmt.Errorf("the daemon is not ready: %s %s", answer.Status, strings.TrimSpace(string(body)))
			}
			var said struct {
				Status string `json:"status"`
			}
			_ = json.Unmarshal(body, &said) // another program's answer is ready, too
			fmt.Fprintln(a.Stdout, or(said.Status, "ready"))
			return nil
		},
	}, config.ListenFlags)
}

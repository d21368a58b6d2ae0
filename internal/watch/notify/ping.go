package notify

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

const pingTimeout = 10 * time.Second

// Ping requests an address, to tell a monitor outside that cycles end.
func Ping(ctx context.Context, client *http.Client, address string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, pingTimeout, fmt.Errorf("no answer within %s", pingTimeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("make ping: %w; check deadman.ping_url", inner(err))
	}
	resp, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("ping %s: %w", req.URL.Host, inner(err))
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxOutput)) // so that the connection can be reused
	if resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("ping %s: HTTP %d", req.URL.Host, resp.StatusCode)
	}
	return nil
}

package survey

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	engineTime = 5 * time.Second
	maxAnswer  = 8 << 20 // bytes that an engine may answer
)

// Container is a running container.
type Container struct {
	ID, Name, Image string
}

// Containers asks the engine behind a Unix socket which containers run.
func Containers(ctx context.Context, socket string) (out []Container, err error) {
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/containers/json", nil)
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	answer, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("list containers: the engine answers %s", answer.Status)
	}
	var rows []struct {
		ID    string `json:"Id"`
		Names []string
		Image string
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(&rows); err != nil {
		return nil, fmt.Errorf("read containers: %w", err)
	}
	for _, r := range rows {
		// Links to other containers are names too; they have a second slash.
		i := slices.IndexFunc(r.Names, func(n string) bool { return strings.Count(n, "/") == 1 })
		if i >= 0 {
			out = append(out, Container{ID: r.ID, Name: strings.TrimPrefix(r.Names[i], "/"), Image: r.Image})
		}
	}
	slices.SortFunc(out, func(a, b Container) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

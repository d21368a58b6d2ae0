package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// A pair that is kept goes on serving its pages after it has ended. The world has no network but its own loopback, so the pages come out
// through a Unix socket in a folder that both sides see.

const (
	outFolder  = "/mnt/out" // inside; a folder of the caller's outside
	pageSocket = "pages.sock"
	linkFile   = "link"
	freeFile   = "free" // appears when the caller has seen enough
)

// hold keeps the world as it is until the caller has seen enough.
func (p *pair) hold(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", filepath.Join(outFolder, pageSocket))
	if err != nil {
		return fmt.Errorf("keep the pages: %w", err)
	}
	defer func() { _ = listener.Close() }()
	go forward(ctx, listener, "tcp", listenAt)
	open := p.command(ctx, "claudeops", "open", "--config", filepath.Join(configDir, "claudeops.yaml"))
	open.Env = append(open.Env, "CLAUDEOPS_API_TOKEN="+apiToken)
	link, _ := open.Output()
	if err := os.WriteFile(filepath.Join(outFolder, linkFile), link, 0o600); err != nil {
		return fmt.Errorf("keep the pages: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(outFolder, freeFile)); err == nil {
			return nil
		}
		if !wait(ctx, pollEvery) {
			return nil
		}
	}
}

// forward copies every connection of a listener to an address.
func forward(ctx context.Context, l net.Listener, network, address string) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = from.Close() }()
			to, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return
			}
			defer func() { _ = to.Close() }()
			go func() { _, _ = io.Copy(to, from) }()
			_, _ = io.Copy(from, to)
		}()
	}
}

// showPages serves the pages of a kept pair on loopback until the caller has seen enough.
func showPages(ctx context.Context, folder string, say io.Writer) error {
	for {
		if _, err := os.Stat(filepath.Join(folder, linkFile)); err == nil {
			break
		}
		if !wait(ctx, pollEvery) {
			return ctx.Err()
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("serve the pages: %w", err)
	}
	defer func() { _ = listener.Close() }()
	go forward(ctx, listener, "unix", filepath.Join(folder, pageSocket))
	link, err := os.ReadFile(filepath.Join(folder, linkFile))
	if err != nil {
		return fmt.Errorf("serve the pages: %w", err)
	}
	found := regexp.MustCompile(`http://\S+`).FindString(string(link))
	_, _ = fmt.Fprintf(say, "The pages of this run: %s\nThey are served until you press Ctrl-C.\n", strings.Replace(found, listenAt, listener.Addr().String(), 1))
	<-ctx.Done()
	return nil
}

// runKept runs one pair and shows its pages. The files of the run stay in a folder that is printed.
func (b *bench) runKept(ctx context.Context, j Job) (Result, error) {
	folder, err := os.MkdirTemp("", "claudeops-kept-")
	if err != nil {
		return Result{}, fmt.Errorf("keep a run: %w", err)
	}
	type end struct {
		r   Result
		err error
	}
	ended := make(chan end, 1)
	shown, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		// The world ends by itself when it is told to, so that the result still comes out.
		r, err := runWorld(context.WithoutCancel(ctx), j, folder, 24*time.Hour, func() {})
		ended <- end{r, err}
		stop()
	}()
	var showErr error
	if j.Contender != plainName {
		showErr = showPages(shown, folder, os.Stdout)
	}
	err = os.WriteFile(filepath.Join(folder, freeFile), nil, 0o600)
	last := <-ended
	if text, encodeErr := json.MarshalIndent(last.r, "", "  "); encodeErr == nil {
		err = errors.Join(err, os.WriteFile(filepath.Join(folder, "result.json"), text, 0o600))
	}
	_, _ = fmt.Fprintf(os.Stdout, "Result with transcript, state, log and configuration of the run: %s\n", folder)
	if errors.Is(showErr, context.Canceled) {
		showErr = nil
	}
	return last.r, errors.Join(last.err, showErr, err)
}

// keepFiles copies the state of the contender out of the world.
func (p *pair) keepFiles(ctx context.Context) error {
	for name, folder := range map[string]string{"state": stateDir, "config": configDir} {
		if _, err := os.Stat(folder); err != nil {
			continue // the plain loop has no state
		}
		out, err := exec.CommandContext(ctx, "cp", "-a", folder, filepath.Join(outFolder, name)).CombinedOutput()
		if err != nil {
			return fmt.Errorf("keep the state: %w: %s", err, out)
		}
	}
	return nil
}

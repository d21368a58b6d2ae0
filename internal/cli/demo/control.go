package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	controlTimeout = 20 * time.Second
	// maxSocketPath is what fits into a socket address everywhere.
	maxSocketPath = 103
	maxRequest    = 4096
)

// wireRequest and wireReply are sent over the keeper's socket, one of each per connection.
type wireRequest struct {
	Verb Verb `json:"verb"`
}

type wireReply struct {
	Text  string `json:"text"`
	Error string `json:"error,omitempty"`
}

// Control sends a verb to the keeper of the demo in dir and returns its output.
func Control(ctx context.Context, dir string, verb Verb) (string, error) {
	path, err := socketPath(dir)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return "", fmt.Errorf("reach the demo in %s: is it running? %w", dir, err)
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := json.NewEncoder(conn).Encode(wireRequest{Verb: verb}); err != nil {
		return "", fmt.Errorf("ask the demo: %w", err)
	}
	var got wireReply
	if err := json.NewDecoder(conn).Decode(&got); err != nil {
		return "", fmt.Errorf("read the demo's answer: %w", err)
	}
	if got.Error != "" {
		return got.Text, errors.New(got.Error)
	}
	return got.Text, nil
}

func socketPath(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find demo folder: %w", err)
	}
	path := filepath.Join(dir, socketFile)
	if len(path) > maxSocketPath {
		return "", fmt.Errorf("use demo folder %s: its path is too long for a socket, choose a shorter one (or a shorter TMPDIR)", dir)
	}
	return path, nil
}

func listenSocket(ctx context.Context, dir string) (net.Listener, error) {
	path, err := socketPath(dir)
	if err != nil {
		return nil, err
	}
	// A killed demo leaves its socket; a running one answers on it.
	if conn, err := new(net.Dialer).DialContext(ctx, "unix", path); err == nil {
		_ = conn.Close()
		return nil, fmt.Errorf("use demo folder %s: another demo is running there", dir)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove old socket: %w", err)
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("open the demo's socket: %w", err)
	}
	return ln, nil
}

// answerSocket serves the socket, one connection after the other: there is only one service to act on.
func (k *Keeper) answerSocket(life context.Context, ln net.Listener) {
	stop := context.AfterFunc(life, func() { _ = ln.Close() })
	defer stop()
	defer func() { _ = ln.Close() }()
	for {
		conn, err := ln.Accept()
		if life.Err() != nil {
			if conn != nil {
				_ = conn.Close()
			}
			return
		}
		if err != nil {
			k.log.WarnContext(life, "the demo's socket stopped; restart the demo to control its service", "error", err)
			return
		}
		if err := k.answer(life, conn); err != nil {
			k.log.WarnContext(life, "cannot answer a request to the demo", "error", err)
		}
	}
}

func (k *Keeper) answer(life context.Context, conn net.Conn) (err error) {
	defer func() { err = errors.Join(err, conn.Close()) }()
	ctx, cancel := context.WithTimeout(life, controlTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := conn.SetReadDeadline(time.Now().Add(upstreamTimeout)); err != nil {
		return fmt.Errorf("limit request: %w", err)
	}
	var asked wireRequest
	if err := json.NewDecoder(io.LimitReader(conn, maxRequest)).Decode(&asked); err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	text, err := k.Do(ctx, asked.Verb)
	got := wireReply{Text: text}
	if err != nil {
		got.Error = err.Error()
	}
	if err := json.NewEncoder(conn).Encode(got); err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	return nil
}

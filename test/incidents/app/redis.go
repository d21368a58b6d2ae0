package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// ask sends one command to Redis and returns its answer as text; nothing is an empty text.
func (s *shop) ask(ctx context.Context, words ...string) (string, error) {
	if s.redis == "" {
		return "", nil
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.redis)
	if err != nil {
		return "", fmt.Errorf("queue: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return "", fmt.Errorf("queue: %w", err)
	}
	if _, err := io.WriteString(conn, encode(words)); err != nil {
		return "", fmt.Errorf("queue: %w", err)
	}
	answer, err := decode(bufio.NewReader(conn))
	if err != nil {
		return "", fmt.Errorf("queue: %w", err)
	}
	return answer, nil
}

// encode writes a command as the protocol of Redis wants it: the number of words, then each with its length.
func encode(words []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

// decode reads an answer that is not a list.
func decode(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return "", fmt.Errorf("empty answer")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+', ':':
		return rest, nil
	case '-':
		return "", fmt.Errorf("%s", rest)
	case '$':
		size, err := strconv.Atoi(rest)
		if err != nil || size < 0 {
			return "", err
		}
		text := make([]byte, size)
		_, err = io.ReadFull(r, text)
		return string(text), err
	}
	return "", fmt.Errorf("answer %q is not understood", line)
}

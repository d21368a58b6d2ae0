package probe

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"

	"claudeops/internal/ops"
)

// deepest is how many nested lists may contain the first value of an answer.
const deepest = 8

var errNoRedis = errors.New("the answer is not in the Redis protocol")

// redis connects, logs in if there is a password, and sends one command. It speaks the second version of the protocol,
// which Redis and compatible servers understand.
func (p *Prober) redis(ctx context.Context, spec ops.ProbeSpec) finding {
	var answer string
	return p.redisAnswer(ctx, spec, &answer)
}

func (p *Prober) redisAnswer(ctx context.Context, spec ops.ProbeSpec, answer *string) finding {
	target, err := redisTarget(spec)
	if err != nil {
		return down("%s", err)
	}
	conn, err := p.dialer.DialContext(ctx, "tcp", target.address)
	if err != nil {
		return down("%s", reason(err))
	}
	if target.tls != nil {
		conn = tls.Client(conn, target.tls)
	}
	defer func() { _ = conn.Close() }()
	// A cancelled probe must not wait for an answer.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()

	in := bufio.NewReader(conn)
	for _, words := range target.commands {
		if *answer, err = ask(conn, in, words); err != nil {
			return down("%s: %s", strings.ToUpper(words[0]), reason(err))
		}
	}
	return firstValue(spec, *answer)
}

type redisServer struct {
	address  string
	tls      *tls.Config
	commands [][]string
}

func redisTarget(spec ops.ProbeSpec) (redisServer, error) {
	u, err := url.Parse(spec.URL)
	if err != nil || u.Hostname() == "" || (u.Scheme != "redis" && u.Scheme != "rediss") {
		return redisServer{}, errors.New("give the address as redis://host:6379/0, or rediss:// for TLS")
	}
	target := redisServer{address: u.Host}
	if u.Port() == "" {
		target.address = net.JoinHostPort(u.Hostname(), "6379")
	}
	if u.Scheme == "rediss" {
		target.tls = &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12, InsecureSkipVerify: spec.InsecureTLS}
	}
	password, _ := u.User.Password()
	if spec.Password != "" {
		password = spec.Password
	}
	switch user := u.User.Username(); {
	case password == "":
	case user == "":
		target.commands = append(target.commands, []string{"AUTH", password})
	default:
		target.commands = append(target.commands, []string{"AUTH", user, password})
	}
	if number := strings.Trim(u.Path, "/"); number != "" {
		if _, err := strconv.Atoi(number); err != nil {
			return target, fmt.Errorf("%q is not the number of a database", number)
		}
		target.commands = append(target.commands, []string{"SELECT", number})
	}
	words := strings.Fields(spec.Query)
	if len(words) == 0 {
		words = []string{"PING"}
	}
	target.commands = append(target.commands, words)
	return target, nil
}

// ask sends one command and returns its answer.
func ask(out io.Writer, in *bufio.Reader, words []string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := io.WriteString(out, b.String()); err != nil {
		return "", err
	}
	return readReply(in)
}

// readReply reads one reply and returns its first value.
func readReply(in *bufio.Reader) (string, error) {
	for range deepest { // a list is read no further than its first value
		raw, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return "", errNoRedis
		}
		if err != nil {
			return "", err
		}
		line := strings.TrimRight(string(raw), "\r\n")
		if line == "" {
			return "", errNoRedis
		}
		switch rest := line[1:]; line[0] {
		case '+', ':':
			return rest, nil
		case '-':
			return "", errors.New(rest)
		case '$':
			return readBulk(in, rest)
		case '*':
			if n, err := strconv.Atoi(rest); err != nil || n <= 0 {
				return "", err
			}
		default:
			return "", errNoRedis
		}
	}
	return "", errNoRedis
}

func readBulk(in io.Reader, size string) (string, error) {
	n, err := strconv.Atoi(size)
	switch {
	case err != nil:
		return "", errNoRedis
	case n < 0:
		return "", nil // there is no such value
	case n > maxBody:
		return "", fmt.Errorf("the answer is longer than %d bytes", maxBody)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(in, text); err != nil {
		return "", err
	}
	return string(text), nil
}

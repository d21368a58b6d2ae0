package probe

import (
	"bufio"
	"cmp"
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

// deepest is how many lists an answer may have for each value that is read.
const deepest = 8

var errNoRedis = errors.New("the answer is not in the Redis protocol")

// redis connects, logs in if there is a password, and sends one command. It speaks the second version of the protocol,
// which Redis and compatible servers understand.
func (p *Prober) redis(ctx context.Context, spec ops.ProbeSpec) finding {
	words := strings.Fields(spec.Query)
	if len(words) == 0 {
		words = []string{"PING"}
	}
	values, err := p.askRedis(ctx, spec, words, 1)
	if err != nil {
		return down("%s", err)
	}
	return firstValue(spec, strings.Join(values, ""))
}

// askRedis returns the first values of the answer to a command.
func (p *Prober) askRedis(ctx context.Context, spec ops.ProbeSpec, command []string, most int) (values []string, err error) {
	target, err := redisTarget(spec)
	if err != nil {
		return nil, err
	}
	conn, err := p.dialer.DialContext(ctx, "tcp", target.address)
	if err != nil {
		return nil, errors.New(reason(err))
	}
	if target.tls != nil {
		conn = tls.Client(conn, target.tls)
	}
	defer func() { _ = conn.Close() }()
	// A cancelled probe must not wait for an answer.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()

	in := bufio.NewReader(conn)
	for _, words := range append(target.login, command) {
		if values, err = ask(conn, in, words, most); err != nil {
			return nil, fmt.Errorf("%s: %s", strings.ToUpper(words[0]), reason(err))
		}
	}
	return values, nil
}

type redisServer struct {
	address string
	tls     *tls.Config
	login   [][]string // commands before any other
}

func redisTarget(spec ops.ProbeSpec) (redisServer, error) {
	u, err := url.Parse(spec.URL)
	if err != nil || u.Hostname() == "" || (u.Scheme != "redis" && u.Scheme != "rediss") {
		return redisServer{}, errors.New("give the address as redis://host:6379/0, or rediss:// for TLS")
	}
	target := redisServer{address: net.JoinHostPort(u.Hostname(), portOf(u))}
	if u.Scheme == "rediss" {
		target.tls = &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12, InsecureSkipVerify: spec.InsecureTLS}
	}
	password, _ := u.User.Password()
	password = cmp.Or(spec.Password, password)
	switch user := u.User.Username(); {
	case password == "":
	case user == "":
		target.login = append(target.login, []string{"AUTH", password})
	default:
		target.login = append(target.login, []string{"AUTH", user, password})
	}
	if number := strings.Trim(u.Path, "/"); number != "" {
		if _, err := strconv.Atoi(number); err != nil {
			return target, fmt.Errorf("%q is not the number of a database", number)
		}
		target.login = append(target.login, []string{"SELECT", number})
	}
	return target, nil
}

// ask sends one command and returns the first values of its answer.
func ask(out io.Writer, in *bufio.Reader, words []string, most int) ([]string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := io.WriteString(out, b.String()); err != nil {
		return nil, err
	}
	return readReply(in, most)
}

// readReply reads the first values of one reply, those of lists one after the other.
func readReply(in *bufio.Reader, most int) (values []string, err error) {
	size, lists := 0, 0
	for left := 1; left > 0 && len(values) < most && size < maxOutput; left-- {
		raw, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return nil, errNoRedis
		}
		if err != nil {
			return nil, err
		}
		line := strings.TrimRight(string(raw), "\r\n")
		if line == "" {
			return nil, errNoRedis
		}
		value := line[1:]
		switch line[0] {
		case '+', ':':
		case '-':
			return nil, errors.New(value)
		case '$':
			if value, err = readBulk(in, value); err != nil {
				return nil, err
			}
		case '*':
			n, err := strconv.Atoi(value)
			if lists++; err != nil || lists == deepest*most {
				return nil, errNoRedis
			}
			left += max(n, 0)
			continue
		default:
			return nil, errNoRedis
		}
		values, size = append(values, value), size+len(value)
	}
	return values, nil
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
	text := make([]byte, n+len("\r\n"))
	if _, err := io.ReadFull(in, text); err != nil {
		return "", err
	}
	return string(text[:n]), nil
}

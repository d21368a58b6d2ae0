package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
)

const (
	// lookLimit bounds one look, maxRows what it reads of a table.
	lookLimit = 15 * time.Second
	maxRows   = 50
)

// Look is a question about the network of this machine. An agent whose session has a network of its own asks the supervisor, which
// looks for it: at this machine, and at the addresses that probes name.
type Look struct {
	What   string   `json:"what"`
	Target string   `json:"target"`
	Query  string   `json:"query"`
	Argv   []string `json:"argv"`
}

// Looks lists what can be looked at.
func Looks() []string {
	return []string{"sockets", "routes", "firewall", "ping", "dns", "tcp", "tls", "http", "head", "redis", "sql", "command"}
}

// Look answers a question. Its answer is as long as the beginning of a page, and not redacted yet.
func (p *Prober) Look(ctx context.Context, specs []ops.ProbeSpec, l Look) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	switch l.What {
	case "sockets":
		return p.print(ctx, "ss", "-tulpn")
	case "routes":
		addresses, err := p.print(ctx, "ip", "-brief", "address", "show")
		if err != nil {
			return "", err
		}
		routes, err := p.print(ctx, "ip", "route", "show")
		return addresses + routes, err
	case "firewall":
		return p.print(ctx, "nft", "list", "ruleset")
	case "command":
		if err := declaredTargets(specs, l.Argv); err != nil {
			return "", err
		}
		return p.print(ctx, l.Argv...)
	}
	found, err := declared(specs, l)
	if err != nil {
		return "", err
	}
	text, err := p.lookAt(ctx, found, l)
	if err != nil {
		return "", errors.New(withoutSecrets(found.spec, err.Error()))
	}
	return ops.Cut(withoutSecrets(found.spec, text), maxOutput), nil
}

// lookAt looks at one declared address.
func (p *Prober) lookAt(ctx context.Context, at address, l Look) (string, error) {
	switch l.What {
	case "ping":
		return p.print(ctx, "ping", "-c", "3", "-W", "2", at.host)
	case "dns":
		spec := ops.ProbeSpec{Host: at.host, Record: l.Query, Server: at.spec.Server}
		answers, err := lookup(ctx, p.resolver(spec), record(spec), spec.Host)
		if err != nil {
			return "", errors.New(lookupReason(err, spec))
		}
		return strings.Join(answers, "\n"), nil
	case "tcp":
		if f := p.tcp(ctx, ops.ProbeSpec{Address: at.hostPort()}); f.status != ops.Healthy {
			return "", errors.New(f.err)
		}
		return "open", nil
	case "tls":
		return p.lookTLS(ctx, at)
	case "redis":
		return p.lookRedis(ctx, at.spec, l.Query)
	case "sql":
		return p.lookSQL(ctx, at.spec, l.Query)
	default:
		return p.lookHTTP(ctx, at.spec, l)
	}
}

// print runs a program that only looks and returns what it prints.
func (p *Prober) print(ctx context.Context, argv ...string) (string, error) {
	output, failed := p.execute(ctx, argv)
	text := output.kept.String()
	if failed != "" {
		return "", fmt.Errorf("%s: %s\n%s", argv[0], failed, strings.TrimSpace(text))
	}
	return text, nil
}

// address is one that a probe names.
type address struct {
	spec       ops.ProbeSpec
	host, port string
}

func (a address) hostPort() string { return net.JoinHostPort(a.host, a.port) }

// addresses are those that the probes name.
func addresses(specs []ops.ProbeSpec) []address {
	var out []address
	for _, s := range specs {
		a := address{spec: s, host: s.Host}
		switch s.Type {
		case "http", "redis", "postgres", "mysql":
			u, err := url.Parse(s.URL)
			if err != nil {
				continue
			}
			a.host, a.port = u.Hostname(), u.Port()
			if a.port == "" {
				a.port = map[string]string{
					"http": "80", "https": "443", "redis": "6379", "rediss": "6379", "postgres": "5432", "postgresql": "5432", "mysql": "3306",
				}[u.Scheme]
			}
		case "tcp":
			a.host, a.port, _ = net.SplitHostPort(s.Address)
		case "dns":
		default:
			continue
		}
		if a.host = strings.ToLower(a.host); a.host != "" {
			out = append(out, a)
		}
	}
	return out
}

// declared finds the address that a question means: by the name of a service, a host, host:port or a URL.
func declared(specs []ops.ProbeSpec, l Look) (address, error) {
	if !slices.Contains(Looks(), l.What) {
		return address{}, fmt.Errorf("there is nothing called %q to look at: use %s", l.What, strings.Join(Looks(), ", "))
	}
	types := map[string][]string{"redis": {"redis"}, "sql": {"postgres", "mysql"}, "http": {"http"}, "head": {"http"}}[l.What]
	host, port := strings.ToLower(l.Target), ""
	if u, err := url.Parse(l.Target); err == nil && u.Host != "" {
		host, port = strings.ToLower(u.Hostname()), u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
	} else if h, p, err := net.SplitHostPort(host); err == nil {
		host, port = h, p
	}
	var names []string
	for _, a := range addresses(specs) {
		if len(types) > 0 && !slices.Contains(types, a.spec.Type) {
			continue
		}
		names = append(names, a.spec.Service+" "+strings.Trim(a.host+":"+a.port, ":"))
		needsPort := l.What == "tcp" || l.What == "tls" || len(types) > 0
		same := a.host == host && (port == "" || port == a.port) && (!needsPort || a.port != "")
		if same || a.spec.Service == l.Target && l.Target != "" && (!needsPort || a.port != "") {
			return a, nil
		}
	}
	if len(names) == 0 {
		return address{}, fmt.Errorf("no probe of this environment names an address for %s: report it for a human", l.What)
	}
	return address{}, fmt.Errorf("%q is not an address that a probe of this environment declares for %s: use one of %s", l.Target, l.What,
		strings.Join(names, ", "))
}

// declaredTargets requires that a program which looks at the network looks at declared addresses only, in a form that says which.
func declaredTargets(specs []ops.ProbeSpec, argv []string) error {
	if len(argv) == 0 {
		return errors.New("name the program")
	}
	var targets []Look
	words := argv[1:]
	switch argv[0] {
	case "ss", "ip", "nft":
		return nil
	case "ping", "ping6":
		if len(words) > 0 {
			targets = append(targets, Look{What: "ping", Target: words[len(words)-1]})
		}
	case "nc":
		last := len(words)
		for last > 0 && strings.Trim(words[last-1], "0123456789") == "" {
			last--
		}
		for _, port := range words[last:] {
			if last > 0 {
				targets = append(targets, Look{What: "tcp", Target: net.JoinHostPort(words[last-1], port)})
			}
		}
	case "dig":
		for _, w := range words {
			switch {
			case strings.HasPrefix(w, "+"), w == "-4", w == "-6", slices.Contains(recordTypes(), strings.ToUpper(w)):
			case strings.HasPrefix(w, "-"):
				return fmt.Errorf("dig %s is not a plain form: use dig [@server] name [type] [+short]", w)
			case strings.HasPrefix(w, "@"):
				server := serverAddress(w[1:])
				if !slices.ContainsFunc(specs, func(s ops.ProbeSpec) bool { return s.Server != "" && serverAddress(s.Server) == server }) {
					return fmt.Errorf("no probe of this environment asks the name server %s: leave it out", w[1:])
				}
			default:
				targets = append(targets, Look{What: "dns", Target: w})
			}
		}
	default:
		return fmt.Errorf("%s is not looked at from outside: use what = %s", argv[0], strings.Join(Looks(), ", "))
	}
	if len(targets) == 0 {
		return fmt.Errorf("%s names no address", argv[0])
	}
	for _, t := range targets {
		if _, err := declared(specs, t); err != nil {
			return err
		}
	}
	return nil
}

// lookTLS says what certificate a server shows and whether it is trusted.
func (p *Prober) lookTLS(ctx context.Context, at address) (string, error) {
	conn, err := p.dialer.DialContext(ctx, "tcp", at.hostPort())
	if err != nil {
		return "", errors.New(reason(err))
	}
	defer func() { _ = conn.Close() }()
	// Any certificate is shown; whether it is trusted is said, not required.
	wrapped := tls.Client(conn, &tls.Config{ServerName: at.host, InsecureSkipVerify: true}) //nolint:gosec // nothing is sent
	if err := wrapped.HandshakeContext(ctx); err != nil {
		return "", errors.New(reason(err))
	}
	state := wrapped.ConnectionState()
	cert := state.PeerCertificates[0]
	trusted, between := "trusted for "+at.host, x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		between.AddCert(c)
	}
	if _, err := cert.Verify(x509.VerifyOptions{DNSName: at.host, Intermediates: between}); err != nil {
		trusted = "not trusted: " + err.Error()
	}
	return fmt.Sprintf("%s\nsubject %s\nissuer %s\nnames %s\nfrom %s\nto %s\n%s\n", tls.VersionName(state.Version), cert.Subject, cert.Issuer,
		strings.Join(cert.DNSNames, ", "), cert.NotBefore.UTC().Format(time.RFC3339), cert.NotAfter.UTC().Format(time.RFC3339), trusted), nil
}

// lookHTTP asks a declared service. The headers, the password and the body of its probe are not sent, and a redirect is only shown.
func (p *Prober) lookHTTP(ctx context.Context, spec ops.ProbeSpec, l Look) (string, error) {
	asked := ops.ProbeSpec{URL: spec.URL, Method: http.MethodGet}
	if l.What == "head" {
		asked.Method = http.MethodHead
	}
	if strings.Contains(l.Target, "://") {
		asked.URL = l.Target
	}
	req, err := request(ctx, asked)
	if err != nil {
		return "", err
	}
	req.URL.User = nil
	client := *p.client
	if spec.InsecureTLS {
		client.Transport = p.insecure
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if err != nil {
		return "", errors.New(reason(err))
	}
	defer func() { _ = resp.Body.Close() }()
	resp.Header.Del("Set-Cookie")
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s\n", resp.Proto, resp.Status)
	if err := resp.Header.Write(&text); err != nil {
		return "", err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxOutput))
	return text.String() + "\n" + string(body), err
}

// lookRedis sends PING or INFO.
func (p *Prober) lookRedis(ctx context.Context, spec ops.ProbeSpec, query string) (string, error) {
	words := strings.Fields(query)
	if len(words) == 0 {
		words = []string{"PING"}
	}
	if verb := strings.ToUpper(words[0]); verb != "PING" && verb != "INFO" || len(words) > 2 {
		return "", errors.New("only PING and INFO [section] are sent")
	}
	spec.Query, spec.Expect = strings.Join(words, " "), nil
	var answer string
	f := p.redisAnswer(ctx, spec, &answer)
	if f.status != ops.Healthy {
		return "", errors.New(f.err)
	}
	return answer, nil
}

// lookSQL runs one statement in a transaction that cannot change anything. It is prepared first, which no server does with two: the
// second could run after the end of the transaction. Statements that end the transaction themselves are not sent: MariaDB would then run
// them outside of it.
func (p *Prober) lookSQL(ctx context.Context, spec ops.ProbeSpec, query string) (text string, err error) {
	words := strings.Fields(strings.ToUpper(query))
	if len(words) == 0 || !slices.Contains([]string{"SELECT", "WITH", "SHOW", "EXPLAIN"}, words[0]) {
		return "", errors.New("only SELECT, WITH, SHOW and EXPLAIN are sent")
	}
	open := p.databases[spec.Type]
	at, err := databaseAddress(spec)
	if err != nil || open == nil {
		return "", errors.Join(err, errors.New("the database cannot be opened"))
	}
	db, err := open(ctx, at)
	if err != nil {
		return "", errors.New(databaseReason(err))
	}
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return "", errors.New(databaseReason(err))
	}
	defer func() { _ = tx.Rollback() }()
	statement, err := tx.PrepareContext(ctx, query)
	if err != nil {
		return "", errors.New(databaseReason(err))
	}
	defer func() { _ = statement.Close() }()
	rows, err := statement.QueryContext(ctx)
	if err != nil {
		return "", errors.New(databaseReason(err))
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	return table(rows)
}

// table writes the first rows of an answer, with the names of its columns.
func table(rows *sql.Rows) (string, error) {
	columns, err := rows.Columns()
	if err != nil {
		return "", err
	}
	var out strings.Builder
	fmt.Fprintln(&out, strings.Join(columns, "\t"))
	values := make([]any, len(columns))
	for i := range values {
		values[i] = new(sql.RawBytes)
	}
	for n := 0; rows.Next(); n++ {
		if n == maxRows || out.Len() > maxOutput {
			fmt.Fprintf(&out, "… more than %d rows\n", n)
			break
		}
		if err := rows.Scan(values...); err != nil {
			return "", err
		}
		for i, v := range values {
			if i > 0 {
				out.WriteByte('\t')
			}
			out.Write(*v.(*sql.RawBytes))
		}
		out.WriteByte('\n')
	}
	return out.String(), rows.Err()
}

package probe

import (
	"cmp"
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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/ops"
)

const (
	// lookLimit bounds one look, queryLimit one query, maxRows what it reads of a table.
	lookLimit  = 15 * time.Second
	queryLimit = 5 * time.Second
	maxRows    = 50
)

// Look is a question about the network of this machine. An agent whose session has a network of its own asks the supervisor, which
// looks for it: at this machine, and at the addresses that probes name.
type Look struct {
	What   string   `json:"what"`
	Target string   `json:"target"`
	Query  string   `json:"query"`
	Argv   []string `json:"argv"`
	// Params are the values of a query.
	Params map[string]string `json:"params"`
}

// Looks lists what can be looked at.
func Looks() []string {
	return []string{"sockets", "routes", "firewall", "ping", "dns", "tcp", "tls", "http", "head", "query", "command"}
}

// Look answers a question about an environment. Its answer is as long as the beginning of a page, and not redacted yet. Nothing that it
// does to a server or runs is the agent's own text: see plainForm and ops.Query.
func (p *Prober) Look(ctx context.Context, env ops.Environment, l Look) (string, error) {
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
	case "query":
		return p.query(ctx, env, l)
	case "command":
		argv, err := plainForm(env.Probes, l.Argv)
		if err != nil {
			return "", err
		}
		return p.print(ctx, argv...)
	}
	if !slices.Contains(Looks(), l.What) {
		return "", fmt.Errorf("look cannot show %q: use %s; %s", l.What, strings.Join(Looks(), ", "), queries(env))
	}
	found, err := declared(env.Probes, l)
	if err != nil {
		return "", err
	}
	text, err := p.lookAt(ctx, found, l)
	return told(found.spec, text, err)
}

// told is an answer without the secrets of the probe that it came through.
func told(spec ops.ProbeSpec, text string, err error) (string, error) {
	if err != nil {
		return "", errors.New(withoutSecrets(spec, databaseReason(err)))
	}
	return ops.Cut(withoutSecrets(spec, text), maxOutput), nil
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
			a.host, a.port = u.Hostname(), portOf(u)
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

// portOf is the port of an address, which its scheme says where it does not.
func portOf(u *url.URL) string {
	return cmp.Or(u.Port(), map[string]string{
		"http": "80", "https": "443", "redis": "6379", "rediss": "6379", "postgres": "5432", "postgresql": "5432", "mysql": "3306",
	}[u.Scheme])
}

// declared finds the address that a question means: by the name of a service, a host, host:port or a URL.
func declared(specs []ops.ProbeSpec, l Look) (address, error) {
	web := l.What == "http" || l.What == "head"
	host, port := strings.ToLower(l.Target), ""
	if u, err := url.Parse(l.Target); err == nil && u.Host != "" {
		host, port = strings.ToLower(u.Hostname()), portOf(u)
	} else if h, p, err := net.SplitHostPort(host); err == nil {
		host, port = h, p
	}
	var names []string
	for _, a := range addresses(specs) {
		if web && a.spec.Type != "http" {
			continue
		}
		names = append(names, a.spec.Service+" "+strings.Trim(a.host+":"+a.port, ":"))
		needsPort := l.What == "tcp" || l.What == "tls" || web
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

// plainForms are how programs may look at the network outside a session: nothing changes, no file is read or written, no program starts,
// and no name is resolved that an agent made up. Groups hold a host and ports.
func plainForms() map[string]string {
	const (
		host   = ` ([\w:][\w.:-]*)`
		counts = `(?: -[46nqv]+| -[cWw] ?\d{1,3}| -i ?[1-9]| -s ?\d{1,4})*`
		shows  = `addr|address|a|route|r|ro|neigh|neighbor|neighbour|n|rule|ru`
		asks   = ` @[\w.:-]+| -[46]|(?: -t)? (?i:A|AAAA|CNAME|MX|TXT|NS|SRV)| \+(?:time|tries|retry|timeout)=\d{1,2}| \+(?:no)?(?:` +
			`short|all|answer|question|authority|additional|comments|cmd|stats|tcp|recurse|dnssec|multiline|search|trace|identify|edns)`
	)
	return map[string]string{
		"ss": `(?: -[nralompTisbe0Zz46tMSudwxHOV]+| --(?:all|numeric|listening|processes|tcp|udp|unix|summary|info|no-header)| -[fA] [a-z_,]+)*` +
			`(?: (?:state|exclude|established|connected|listening|syn-sent|syn-recv|fin-wait-[12]|time-wait|close-wait|last-ack|closing|` +
			`sport|dport|src|dst|and|or|not|[engl][qet]|[0-9.*]*:[a-z0-9*-]+|[0-9.:/*()=<>!&|]+))*`,
		"ip": `(?: -(?:[460jpdsohcNtrV]|br|brief|json|pretty|details|stats|statistics|oneline|human|color|resolve|f inet6?))*(?: (?:` + shows +
			`) s| (?:` + shows + `|link|l|maddr|netns|vrf|tunnel|mroute|nexthop|tcp_metrics)(?: (?:show|list|ls|lst|sh|get)(?: [\w:][\w.:/@-]*)*)?)`,
		"nft":  `(?: -[jansSty]+| --(?:json|handle|numeric|terse|stateless))* list(?: -[an]+| \w[\w.-]*)*`,
		"ping": counts + host + counts, "ping6": counts + host + counts,
		"nc":  `(?: -[46nrvz]+| -[46nrvz]*w ?\d{1,3})*` + host + `((?: \d+)+)`,
		"dig": `(?:` + asks + `)*` + host + `(?:` + asks + `)*`,
	}
}

// plainForm returns the words of a program that looks at the network in a known form, at declared addresses only.
func plainForm(specs []ops.ProbeSpec, argv []string) ([]string, error) {
	line := strings.Join(strings.Fields(strings.Join(argv, " ")), " ")
	argv = strings.Split(line, " ")
	form := plainForms()[argv[0]]
	if form == "" {
		return nil, fmt.Errorf("%q is no program that looks from outside: use what = %s", argv[0], strings.Join(Looks(), ", "))
	}
	parts := regexp.MustCompile(`^` + argv[0] + form + `$`).FindStringSubmatch(line)
	if parts == nil || argv[0] == "nc" && !regexp.MustCompile(` -[46nrv]*z`).MatchString(line) {
		return nil, fmt.Errorf("%s is not permitted in this form: use fewer options, and filter what it prints", argv[0])
	}
	for _, w := range argv {
		if server, ok := strings.CutPrefix(w, "@"); ok && !slices.ContainsFunc(specs, func(s ops.ProbeSpec) bool {
			return s.Server != "" && serverAddress(s.Server) == serverAddress(server)
		}) {
			return nil, fmt.Errorf("no probe of this environment asks the name server %s: leave it out", server)
		}
	}
	if len(parts) == 1 {
		return argv, nil
	}
	targets := []string{parts[1]}
	if len(parts) > 2 {
		targets = strings.Fields(strings.ReplaceAll(parts[2], " ", " "+net.JoinHostPort(parts[1], "")))
	}
	for _, target := range targets {
		if at, err := declared(specs, Look{What: argv[0], Target: target}); err != nil {
			return nil, err
		} else if !strings.EqualFold(at.host, parts[1]) && at.spec.Service != parts[1] {
			return nil, fmt.Errorf("%q is more than a host: use %s", parts[1], at.host)
		}
	}
	return argv, nil
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
	client := *p.HTTPClient
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

// query asks what the operator wrote, with the values of the agent.
func (p *Prober) query(ctx context.Context, env ops.Environment, l Look) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, queryLimit)
	defer cancel()
	service, _ := env.Policy.Inventory.Canonical(l.Target)
	for _, s := range env.Policy.Inventory.Services {
		for _, q := range s.Queries {
			at := slices.IndexFunc(env.Probes, func(p ops.ProbeSpec) bool { return p.Service == s.Name && q.Through(p.Type) })
			if s.Name != service || q.Name != l.Query || at < 0 {
				continue
			}
			run := p.queryRedis
			if q.SQL() {
				run = p.querySQL
			}
			text, err := run(ctx, env.Probes[at], q, l.Params)
			return told(env.Probes[at], text, err)
		}
	}
	return "", fmt.Errorf("there is no query %q of a service %q: %s", l.Query, l.Target, queries(env))
}

func queries(env ops.Environment) string {
	return "the queries are " + cmp.Or(ops.Listed(ops.QueryForms(env.Policy.Inventory.Services)), "none")
}

// bind puts values into their places: exactly those that the query has, in their types.
func bind(q ops.Query, given map[string]string, place func(name string, value any) string) ([]string, error) {
	var faults []error
	for name := range given {
		if q.Params[name] == "" {
			faults = append(faults, fmt.Errorf("it has no parameter %q", name))
		}
	}
	run, err := q.Bind(func(name string) string {
		text, ok := given[name]
		var value any = text
		if q.Params[name] == ops.ParamInteger {
			n, err := strconv.ParseInt(text, 10, 64)
			value, ok = n, err == nil
		}
		if !ok {
			faults = append(faults, fmt.Errorf("give %s=%s", name, strings.ToUpper(q.Params[name])))
		}
		return place(name, value)
	})
	return run, errors.Join(append(faults, err)...)
}

func (p *Prober) queryRedis(ctx context.Context, spec ops.ProbeSpec, q ops.Query, given map[string]string) (string, error) {
	words, err := bind(q, given, func(_ string, value any) string { return fmt.Sprint(value) })
	if err != nil {
		return "", err
	}
	if !ops.RedisReads(words) {
		return "", errors.New("with these values it is not a command that only reads")
	}
	answer, err := p.askRedis(ctx, spec, words, maxRows+1)
	if len(answer) > maxRows {
		answer[maxRows] = fmt.Sprintf("… more than %d rows", maxRows)
	}
	return strings.Join(answer, "\n"), err
}

// querySQL runs one statement in a transaction that cannot change anything. It is prepared first, which no server does with two, and
// which keeps the values out of its text.
func (p *Prober) querySQL(ctx context.Context, spec ops.ProbeSpec, q ops.Query, given map[string]string) (string, error) {
	var names []string
	var args []any
	run, err := bind(q, given, func(name string, value any) string {
		n := slices.Index(names, name)
		if n < 0 || spec.Type == "mysql" {
			n, names, args = len(names), append(names, name), append(args, value)
		}
		if spec.Type == "mysql" {
			return "?"
		}
		return fmt.Sprintf("$%d", n+1)
	})
	if err != nil {
		return "", err
	}
	at, err := databaseAddress(spec)
	if err != nil {
		return "", err
	}
	db, err := p.Databases[spec.Type](ctx, at)
	if err != nil {
		return "", err
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return "", err
	}
	defer func() { _ = tx.Rollback() }()
	if err := powerless(ctx, tx, spec.Type); err != nil {
		return "", err
	}
	statement, err := tx.PrepareContext(ctx, run[0])
	if err != nil {
		return "", err
	}
	defer func() { _ = statement.Close() }()
	rows, err := statement.QueryContext(ctx, args...)
	if err != nil {
		return "", err
	}
	defer func() { cancel(); _ = rows.Close() }() // without cancel it would read all that is left
	return table(rows)
}

// powerless refuses an account that is more than a reader of tables: what it may call reaches beyond the transaction.
func powerless(ctx context.Context, tx *sql.Tx, kind string) error {
	ask, power, better := `SELECT CASE WHEN rolsuper THEN 'a superuser' ELSE rolname END FROM pg_catalog.pg_roles
		WHERE pg_catalog.pg_has_role(session_user, oid, 'MEMBER') AND (rolsuper OR rolname IN
		('pg_signal_backend', 'pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program')) ORDER BY NOT rolsuper`,
		`(.*)`, "CREATE ROLE claudeops_read LOGIN IN ROLE pg_read_all_data;"
	if kind == "mysql" {
		ask, power = "SHOW GRANTS", `^GRANT (?:.*, )?(ALL PRIVILEGES|FILE|SUPER)(?:,.*)? ON \*\.\* TO`
		better = "CREATE USER claudeops_read; GRANT SELECT ON app.* TO claudeops_read;"
		// A statement that we give up goes on; the server ends it later than we do, so that the answer is always ours. MariaDB knows the
		// first, MySQL the second.
		_, _ = tx.ExecContext(ctx, "SET SESSION max_statement_time = 10")
		_, _ = tx.ExecContext(ctx, "SET SESSION max_execution_time = 10000")
	}
	rows, err := tx.QueryContext(ctx, ask)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var row string
		if err := rows.Scan(&row); err != nil {
			return err
		}
		if has := regexp.MustCompile(power).FindStringSubmatch(row); has != nil {
			return fmt.Errorf("the account of the probe has the rights of %s, so agents ask nothing through it; a human creates one that can only "+
				"read, gives it a password, and names it in the probe: %s", has[1], better)
		}
	}
	return rows.Err()
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

// Package network is the supervisor's side of a session's network. The session has a network namespace of its own, in which a relay
// passes every connection over a Unix socket to a Gateway. The Gateway decides, dials, filters and records.
package network

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"claudeops/internal/guard/wall/confine"
)

const (
	dialTime       = 10 * time.Second
	helloTime      = 10 * time.Second // until a client says what it speaks
	headerTime     = 10 * time.Second
	idleTime       = 2 * time.Minute
	maxHeader      = 256 << 10
	maxConnections = 256 // at once; an agent must not use up the descriptors of the supervisor
	maxRefusals    = 100 // that are recorded
)

// SocketName is the socket of a Gateway in its folder.
const SocketName = "net.sock"

// Refusal is a connection that was not made.
type Refusal struct {
	What string // the name, the address or the request
	Rule string // why
}

// Options are what a Gateway needs.
type Options struct {
	Dir     string // of the socket, for the session alone; empty: a port on loopback, where there is no namespace
	Permits []Permit
	Without []string // services that have no address
	Keys    []string // addresses of the session's own key proxies
	// Own reports whether an address is one of the supervisor's listeners, which must not take the session for the supervisor.
	Own     func(netip.AddrPort) bool
	Refused func(Refusal) // called once for each different refusal
}

// Gateway serves one session.
type Gateway struct {
	o        Options
	listener net.Listener
	token    string // of the proxy, where others can reach it
	server   *http.Server
	forward  *httputil.ReverseProxy
	http     chan net.Conn
	life     context.Context //nolint:containedctx // of the Gateway, not of a call
	cancel   context.CancelFunc
	idle     func() // ends connections that wait for the next request
	served   sync.WaitGroup
	open     atomic.Int64

	mu       sync.Mutex
	names    *names
	conns    map[net.Conn]bool
	notified map[Refusal]bool
	trial    map[string]bool // what only the trial of the walls asks for
}

// Open starts to serve a session, until Close.
func Open(ctx context.Context, o Options) (*Gateway, error) {
	g := &Gateway{
		o: o, http: make(chan net.Conn), names: newNames(o.Permits),
		conns: map[net.Conn]bool{}, notified: map[Refusal]bool{}, trial: map[string]bool{},
	}
	var err error
	if o.Dir != "" {
		socket := filepath.Join(o.Dir, SocketName)
		if g.listener, err = new(net.ListenConfig).Listen(ctx, "unix", socket); err == nil {
			err = errors.Join(os.Chmod(socket, 0o600), writeFiles(o.Dir))
		}
	} else {
		var raw [16]byte
		_, _ = rand.Read(raw[:]) // never fails
		g.token = hex.EncodeToString(raw[:])
		g.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	}
	if err != nil {
		return nil, fmt.Errorf("open network of the session: %w", err)
	}
	g.life, g.cancel = context.WithCancel(context.WithoutCancel(ctx))
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // a message could hold what was sent
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: g.dialAddress, IdleConnTimeout: idleTime, MaxIdleConnsPerHost: 4, DisableCompression: true,
	}
	g.forward = &httputil.ReverseProxy{
		Rewrite: rewrite, ModifyResponse: answered, Transport: transport, FlushInterval: -1, ErrorHandler: g.unreachable, ErrorLog: quiet,
	}
	g.server = &http.Server{
		Handler: g, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader, ErrorLog: quiet,
		BaseContext: func(net.Listener) context.Context { return g.life },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, streamKey{}, c) },
	}
	g.served.Go(func() { _ = g.server.Serve(handed{g}) }) // it ends with Close
	g.served.Go(g.acceptAll)
	g.idle = transport.CloseIdleConnections
	return g, nil
}

// Network is what the relay inside is told; nil where there is no namespace.
func (g *Gateway) Network() *confine.Network {
	if g.o.Dir == "" {
		return nil
	}
	ports := []int{dnsPort, httpPort, httpsPort, proxyPort}
	for _, p := range g.o.Permits {
		ports = append(ports, p.Port)
	}
	for _, key := range g.o.Keys {
		if at, err := netip.ParseAddrPort(key); err == nil {
			ports = append(ports, int(at.Port()))
		}
	}
	slices.Sort(ports)
	return &confine.Network{Socket: filepath.Join(g.o.Dir, SocketName), Ports: slices.Compact(ports)}
}

// Ports are the TCP ports that the session needs where only ports can be held.
func (g *Gateway) Ports() []int {
	var out []int
	for _, address := range append(slices.Clone(g.o.Keys), g.listener.Addr().String()) {
		if at, err := netip.ParseAddrPort(address); err == nil {
			out = append(out, int(at.Port()))
		}
	}
	return out
}

// Proxy is the URL of the proxy for the variables of the session.
func (g *Gateway) Proxy() string {
	if g.o.Dir == "" {
		return "http://session:" + g.token + "@" + g.listener.Addr().String()
	}
	return "http://" + net.JoinHostPort(proxyAddr().String(), strconv.Itoa(proxyPort))
}

// Env are the proxy variables of the session, and one that makes git ask for its remotes by plain HTTP. With a namespace, what is on
// loopback is reached without the proxy as well.
func (g *Gateway) Env() []string {
	var out []string
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		out = append(out, name+"="+g.Proxy())
	}
	var git []string
	for _, p := range g.o.Permits {
		if p.Git != nil && p.Git.Secure {
			at := net.JoinHostPort(p.Host, strconv.Itoa(p.Port))
			git = append(git, fmt.Sprintf("'url.http://%s%s.insteadOf=https://%s%s'", at, p.Git.Path, strings.TrimSuffix(at, ":443"), p.Git.Path))
		}
	}
	if len(git) > 0 {
		out = append(out, "GIT_CONFIG_PARAMETERS="+strings.Join(git, " "))
	}
	if g.o.Dir != "" {
		out = append(out, "NO_PROXY=localhost,127.0.0.1,::1", "no_proxy=localhost,127.0.0.1,::1")
	}
	return out
}

// Trial is what the network must refuse: a forbidden address, name and method. Nobody is told of these refusals: they are ours.
func (g *Gateway) Trial() *confine.NetworkTrial {
	t := &confine.NetworkTrial{Proxy: proxyPort, Host: proxyAddr().As4(), Address: [4]byte{198, 51, 100, 7}}
	auth := ""
	if g.o.Dir == "" {
		at := netip.MustParseAddrPort(g.listener.Addr().String())
		t.Proxy, t.Host = int(at.Port()), at.Addr().As4()
		auth = "\r\nProxy-Authorization: " + basic(g.token)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	ask := func(method, host string, port int) {
		url := "http://" + net.JoinHostPort(host, strconv.Itoa(port)) + trialPath
		t.Requests = append(t.Requests, method+" "+url+" HTTP/1.1"+auth)
		g.trial[method+" "+url] = true
	}
	for _, name := range []string{"claudeops-trial.invalid", "claudeops-trial.example", "example.com"} {
		if _, rule := g.find(name, httpPort, nil); rule != "" {
			ask(http.MethodGet, name, httpPort)
			if g.o.Dir != "" {
				t.Name = name
				g.trial["the name "+name] = true
			}
			break
		}
	}
	ask(http.MethodGet, "198.51.100.7", httpPort)
	for _, p := range g.o.Permits {
		if p.How == HTTP && !p.allows(trialMethod) && !strings.HasPrefix(p.Host, "*") {
			ask(trialMethod, p.Host, p.Port)
			break
		}
	}
	return t
}

const (
	trialMethod = "CLAUDEOPS-TRIAL" // does nothing anywhere
	trialPath   = "/claudeops-trial"
)

// Close ends every connection of the session.
func (g *Gateway) Close() {
	g.cancel()
	_ = g.listener.Close()
	_ = g.server.Close()
	g.idle()
	g.mu.Lock()
	for conn := range g.conns {
		_ = conn.Close()
	}
	g.mu.Unlock()
	g.served.Wait()
}

// keep lets Close end a connection; false when it is too late. The result forgets it.
func (g *Gateway) keep(conn net.Conn) (func(), bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.life.Err() != nil {
		_ = conn.Close()
		return func() {}, false
	}
	g.conns[conn] = true
	return func() {
		_ = conn.Close()
		g.mu.Lock()
		delete(g.conns, conn)
		g.mu.Unlock()
	}, true
}

func (g *Gateway) acceptAll() {
	for {
		conn, err := g.listener.Accept()
		if err != nil {
			return
		}
		if g.open.Add(1) > maxConnections {
			g.open.Add(-1)
			_ = conn.Close()
			continue
		}
		g.served.Go(func() {
			defer g.open.Add(-1)
			drop, ok := g.keep(conn)
			if ok {
				g.serve(&stream{Conn: conn, r: bufio.NewReader(conn), ended: make(chan struct{})})
			}
			drop()
		})
	}
}

// stream is a connection of the session.
type stream struct {
	net.Conn

	r     *bufio.Reader
	hosts []string // what its address stands for
	port  int
	proxy bool // it speaks to the proxy, which hears in each request where to
	once  sync.Once
	ended chan struct{}
}

type streamKey struct{}

func (s *stream) Read(p []byte) (int, error) { return s.r.Read(p) }

// Close is noticed by whoever handed the stream to the HTTP server.
func (s *stream) Close() error {
	s.once.Do(func() { close(s.ended) })
	return s.Conn.Close()
}

// CloseWrite passes the end of one direction on.
func (s *stream) CloseWrite() error { return closeWrite(s.Conn) }

func closeWrite(conn net.Conn) error {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return conn.Close()
}

// serve reads what the relay says about a connection, and gives it to who can answer it.
func (g *Gateway) serve(s *stream) {
	if g.token != "" {
		s.proxy = true
		g.serveHTTP(s)
		return
	}
	_ = s.SetReadDeadline(time.Now().Add(helloTime))
	line, err := s.r.ReadString('\n')
	if err != nil {
		return
	}
	var at, port string
	if n, _ := fmt.Sscanf(line, "tcp %32s %5s\n", &at, &port); n != 2 {
		if line == "dns\n" {
			g.resolve(s)
		}
		return
	}
	raw, err := hex.DecodeString(at)
	addr, ok := netip.AddrFromSlice(raw)
	if s.port, _ = strconv.Atoi(port); err != nil || !ok {
		return
	}
	addr = addr.Unmap()
	g.mu.Lock()
	s.hosts = append(slices.Clone(g.names.byAddr[addr]), addr.String())
	g.mu.Unlock()
	target := netip.AddrPortFrom(addr, uint16(s.port)) //nolint:gosec // a port
	switch {
	case s.port == dnsPort:
		g.resolve(s)
	case addr == proxyAddr() && s.port == proxyPort:
		s.proxy = true
		g.serveHTTP(s)
	case slices.Contains(g.o.Keys, target.String()):
		g.splice(s, false, func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", target.String())
		})
	default:
		g.transparent(s)
	}
}

// transparent serves a connection that a program made to an address itself.
func (g *Gateway) transparent(s *stream) {
	host, permit, rule := g.choose(s, nil)
	if rule == "" && (permit.How == Raw || permit.How == Touch) {
		g.splice(s, permit.How == Touch, func(ctx context.Context) (net.Conn, error) { return g.dial(ctx, host, s.port) })
		return
	}
	// The others speak first.
	first, err := s.r.Peek(1)
	const handshake = 0x16
	switch {
	case err != nil:
		g.refuse(net.JoinHostPort(host, strconv.Itoa(s.port)), cmp.Or(rule, "it said nothing that could be judged"))
	case first[0] == handshake:
		g.tunnel(s, host, s.port, permit, rule)
	case first[0] >= 'A' && first[0] <= 'Z':
		g.serveHTTP(s)
	default:
		g.refuse(net.JoinHostPort(host, strconv.Itoa(s.port)), cmp.Or(rule, "only HTTP is permitted there from inside; use the tool look"))
	}
}

// choose finds what the address of a connection is permitted as. A request must name one of the hosts that the address stands for: others
// could stand behind it.
func (g *Gateway) choose(s *stream, r *http.Request) (string, Permit, string) {
	named, port := "", s.port
	if r != nil && r.Host != "" {
		named, port = hostPort(r.Host, s.port)
	}
	best, widest, refused := s.hosts[0], Permit{}, unlisted
	for _, host := range s.hosts {
		permit, rule := g.find(host, s.port, r)
		switch {
		case rule != "":
		case permit.How == HTTP && (named != "" && named != plain(host) || port != s.port):
			if refused != "" {
				refused = "the Host header names another host"
			}
		case refused != "" || order(permit, r) > order(widest, r):
			best, widest, refused = host, permit, ""
		}
	}
	return best, widest, refused
}

// unlisted is the rule that refuses what nobody listed.
const unlisted = "the address is not listed"

// find returns the widest permit of a host and a port for a request or another connection, or the rule that refuses it.
func (g *Gateway) find(host string, port int, r *http.Request) (Permit, string) {
	best, found := Permit{}, false
	for _, p := range g.o.Permits {
		if p.matches(plain(host), port) && (!found || order(p, r) > order(best, r)) {
			best, found = p, true
		}
	}
	if !found {
		return Permit{}, unlisted
	}
	return best, ""
}

func order(p Permit, r *http.Request) int {
	hows := []How{Look, Touch, HTTP, TLS, Raw}
	switch {
	case p.Git == nil:
		return slices.Index(hows, p.How)
	case r != nil && p.Git.fetches(r):
		return len(hows)
	}
	return -1
}

// tunnel passes a TLS connection whose client names the permitted host.
func (g *Gateway) tunnel(s *stream, host string, port int, permit Permit, rule string) {
	what := "TLS to " + net.JoinHostPort(host, strconv.Itoa(port))
	switch {
	case rule != "":
	case permit.How != TLS && permit.How != Raw:
		rule = "TLS to a service is not filtered: use the tool look"
	default:
		name, hello, err := peekHello(s)
		_, literal := netip.ParseAddr(plain(host))
		switch {
		case err != nil:
			rule = "it is not TLS"
		case plain(name) != plain(host) && (name != "" || literal != nil):
			rule = fmt.Sprintf("the SNI %q is not the host", name)
		}
		if rule == "" {
			s.r = bufio.NewReader(io.MultiReader(strings.NewReader(hello), s.r))
			g.splice(s, false, func(ctx context.Context) (net.Conn, error) { return g.dialThrough(ctx, host, port) })
			return
		}
	}
	g.refuse(what, rule)
}

// splice connects the session with what dial returns; deaf, it ends with the first byte of the session, which is not sent. A connection
// that cannot be made ends without a byte.
func (g *Gateway) splice(s *stream, deaf bool, dial func(context.Context) (net.Conn, error)) {
	_ = s.SetDeadline(time.Time{})
	ctx, cancel := context.WithTimeout(g.life, dialTime)
	defer cancel()
	server, err := dial(ctx)
	if err != nil {
		return
	}
	drop, ok := g.keep(server)
	defer drop()
	if !ok {
		return
	}
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(s.Conn, server)
		_ = closeWrite(s.Conn)
	}()
	if deaf {
		if _, err := s.r.Peek(1); err == nil {
			g.refuse("a byte to "+server.RemoteAddr().String(), touched)
		}
		_ = s.Conn.Close()
		_ = server.Close()
	} else {
		_, _ = io.Copy(server, s.r)
		_ = closeWrite(server)
	}
	<-back
}

var errOwn = errors.New("the relay does not go there: it is an address of the supervisor, of this link or of a cloud's metadata")

// dial connects to a host, unless its address is one that the supervisor must not speak to for a session.
func (g *Gateway) dial(ctx context.Context, host string, port int) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTime, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil || closed(at.Addr().Unmap()) || g.o.Own != nil && g.o.Own(at) {
			return errOwn
		}
		return nil
	}}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if errors.Is(err, errOwn) {
		g.refuse(net.JoinHostPort(host, strconv.Itoa(port)), errOwn.Error())
	}
	return conn, err
}

// closed reports whether nobody outside has a business with an address.
func closed(addr netip.Addr) bool {
	if addr.IsLinkLocalUnicast() || addr.IsMulticast() || addr.IsUnspecified() {
		return true
	}
	// The metadata services of clouds that are not link-local.
	return slices.Contains([]string{"fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"}, addr.WithZone("").String())
}

func (g *Gateway) dialAddress(ctx context.Context, _, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if slices.Contains(g.o.Keys, address) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	return g.dial(ctx, host, n)
}

// dialThrough does the same through the operator's own proxy, where there is one.
func (g *Gateway) dialThrough(ctx context.Context, host string, port int) (net.Conn, error) {
	address := net.JoinHostPort(host, strconv.Itoa(port))
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: "https", Host: address}})
	if err != nil || proxy == nil || proxy.Scheme != "http" {
		return g.dial(ctx, host, port)
	}
	at, err := strconv.Atoi(cmp.Or(proxy.Port(), "80"))
	if err != nil {
		return nil, err
	}
	conn, err := g.dial(ctx, proxy.Hostname(), at)
	if err != nil {
		return nil, err
	}
	ask := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if proxy.User != nil {
		password, _ := proxy.User.Password()
		ask.SetBasicAuth(proxy.User.Username(), password)
		ask.Header["Proxy-Authorization"] = ask.Header["Authorization"]
		ask.Header.Del("Authorization")
	}
	_ = conn.SetDeadline(time.Now().Add(dialTime))
	r := bufio.NewReader(conn)
	if err = ask.Write(conn); err == nil {
		var answer *http.Response
		if answer, err = http.ReadResponse(r, ask); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				err = errors.New("the proxy answered " + answer.Status)
			}
		}
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	_ = conn.SetDeadline(time.Time{})
	return &stream{Conn: conn, r: r, ended: make(chan struct{})}, nil
}

// refuse records a refusal, once.
func (g *Gateway) refuse(what, rule string) {
	r := Refusal{What: what, Rule: rule}
	g.mu.Lock()
	known := g.notified[r] || len(g.notified) >= maxRefusals || g.trial[what]
	g.notified[r] = true
	g.mu.Unlock()
	if !known && g.o.Refused != nil {
		g.o.Refused(r)
	}
}

// Permitted tells an agent where it may go.
func (g *Gateway) Permitted() string {
	var out []string
	for _, p := range g.o.Permits {
		out = append(out, p.String())
	}
	slices.Sort(out)
	text := "This session reaches: " + cmp.Or(strings.Join(slices.Compact(out), ", "), "no host") + "."
	if len(g.o.Without) > 0 {
		text += " These services have no address: " + strings.Join(g.o.Without, ", ") + "."
	}
	return text
}

// writeFiles says inside how names are found: in the files of the machine, then by the resolver on loopback, which is ours.
func writeFiles(dir string) error {
	raw, _ := os.ReadFile("/etc/nsswitch.conf") // without it there is nothing to keep
	lines := slices.DeleteFunc(strings.SplitAfter(string(raw), "\n"), func(line string) bool {
		return strings.HasPrefix(strings.TrimSpace(line), "hosts:")
	})
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "nsswitch.conf"), []byte(strings.Join(lines, "")+"\nhosts: files dns\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "resolv.conf"), []byte("nameserver 127.0.0.1\noptions timeout:2 attempts:1\n"), 0o600),
	)
}

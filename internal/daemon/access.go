package daemon

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"claudeops/internal/agent/process"
	"claudeops/internal/config"
	"claudeops/internal/daemon/control"
	"claudeops/internal/ops"
	"claudeops/internal/web"
	"claudeops/internal/web/login"
)

const (
	// tokenFile holds the token that the daemon makes if the operator sets none.
	tokenFile = "api-token"
	// openToOthers are the permissions of a state folder that others must not have. Passing through it is allowed: agents with a user
	// of their own need that, and the files below are protected themselves.
	openToOthers = 0o026
)

// CheckStateFolder refuses a state folder that other users can list or write to: it holds the database, transcripts and the token.
func CheckStateFolder(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("check state folder: %w", err)
	}
	if mode := info.Mode().Perm(); mode&openToOthers != 0 {
		return fmt.Errorf("the state folder %s is open to other users (mode %04o); run: chmod 0700 %s", dir, mode, quoted(dir))
	}
	return nil
}

func quoted(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }

// Token returns the token that the operator set or, if there is none, the one that the daemon made.
func Token(c *config.Config) (string, error) {
	if c.APIToken != "" {
		return c.APIToken, nil
	}
	return readToken(filepath.Join(c.StateDir, tokenFile))
}

// takeToken makes sure that there is a token. The ground holds the lock of the state folder.
func (p *plan) takeToken() error {
	token, err := Token(p.Config)
	if errors.Is(err, os.ErrNotExist) {
		token, err = makeToken(p.Config.StateDir)
	}
	if err != nil {
		return err
	}
	p.token = token
	if p.Config.APIToken == "" {
		p.Config.Secrets = append(p.Config.Secrets, token)
	}
	return nil
}

func readToken(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s is open to other users or not a file; remove it, and the next start makes a new token", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if len(token) < config.ShortestToken || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("%s does not hold a token of at least %d characters; remove it, and the next start makes a new one",
			path, config.ShortestToken)
	}
	return token, nil
}

// makeToken writes a new token.
func makeToken(dir string) (string, error) {
	token := rand.Text()
	err := replaceFile(filepath.Join(dir, tokenFile), []byte(token+"\n"), nil)
	return ops.Returning(token, err, "make token")
}

// signInLink returns a link that signs a browser in once, within ten minutes. It must not be written to a log: agents may read logs.
func (g *ground) signInLink(ctx context.Context, user string) (string, error) {
	if g.listener == nil {
		return "", errors.New("no web pages are served: this daemon runs a single cycle")
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	path, err := web.SignInPath(ctx, g.store.People, g.Clock(), user)
	if err != nil {
		return "", err
	}
	return entrance{g.plan.Load()}.pagesAt() + path, nil
}

// entrance is how people come in.
type entrance struct{ *plan }

// provider is the identity provider with which people sign in; nil without one.
func (p entrance) provider() *login.Provider {
	c := p.Config.OIDC
	if c.Issuer == "" {
		return nil
	}
	o := login.ProviderOptions{
		Issuer: c.Issuer, ClientID: c.ClientID, ClientSecret: c.ClientSecret,
		RedirectURL: p.Config.Edges.PublicURL + web.OIDCCallback, Clock: p.Clock,
	}
	for _, g := range c.Granted() {
		o.Rules = append(o.Rules, login.Rule(g))
	}
	return login.NewProvider(o)
}

// reachedAt is the address for jobs of this machine and others.
func (p entrance) reachedAt() string {
	if p.listener != nil {
		return cmp.Or(p.Config.Edges.PublicURL, p.pagesAt())
	}
	return p.Config.Edges.PublicURL
}

// pagesAt is the address for people on this machine, or the public one.
func (p entrance) pagesAt() string {
	// On a shared database the public address may lead to another host, which does not know the code.
	if p.Config.Edges.PublicURL != "" && !p.shared() {
		return p.Config.Edges.PublicURL
	}
	address := p.listener.Addr().String()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "http://" + address
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// peerRules say which local processes are agents.
func (g *ground) peerRules() control.Rules {
	uid := g.Config.Guard.Sandbox.UID
	if uid == 0 {
		return control.Rules{}
	}
	return control.Rules{AgentUIDs: []int{uid}}
}

// AgentsSeparated reports whether something tells a process of an agent from one of the operator: a user of its own or a cgroup per
// session.
func AgentsSeparated(c *config.Config) bool {
	s := c.Guard.Sandbox
	return s.UID != 0 || process.CgroupAvailable()
}

// connectionKey is the context key of the check of a connection.
type connectionKey struct{}

// checkConnection prepares the check of a TCP connection, which is made once, with its first request.
func (g *ground) checkConnection(ctx context.Context, c net.Conn) context.Context {
	local, ok := addressOf(c.LocalAddr())
	remote, ok2 := addressOf(c.RemoteAddr())
	if !ok || !ok2 || !remote.Addr().Unmap().IsLoopback() {
		return ctx // from another machine: a session here would come from loopback or from an own address, and needs the token too
	}
	rules := g.peerRules()
	return context.WithValue(ctx, connectionKey{}, sync.OnceValue(func() string {
		caller, err := rules.OfTCP(local, remote)
		if err != nil {
			g.Logger.WarnContext(ctx, "cannot find out who opened a connection; the token still protects", "error", err)
			return ""
		}
		if caller.Refusal == "" {
			return ""
		}
		g.recordRefusal(ctx, "web pages", caller)
		return "This connection comes from a session of an agent. Agents may not use the pages or the API."
	}))
}

func addressOf(a net.Addr) (netip.AddrPort, bool) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, false
	}
	return tcp.AddrPort(), true
}

// refuseConnection is why the sender of a request is refused, or empty.
func refuseConnection(r *http.Request) string {
	if check, ok := r.Context().Value(connectionKey{}).(func() string); ok {
		return check()
	}
	return ""
}

// refusalEvery is how often the same refusal is recorded: a caller that tries again and again must not fill the journal.
const refusalEvery = time.Minute

// recordRefusal logs and records that a local process was refused.
func (g *ground) recordRefusal(ctx context.Context, door string, c control.Caller) {
	now := g.Clock()
	g.refusals.Lock()
	last, seen := g.refusals.at[door+c.Refusal]
	if len(g.refusals.at) > 1000 || g.refusals.at == nil {
		g.refusals.at = map[string]time.Time{}
	}
	g.refusals.at[door+c.Refusal] = now
	g.refusals.Unlock()
	if seen && now.Sub(last) < refusalEvery {
		return
	}
	g.Logger.ErrorContext(ctx, "a local process was refused", "door", door, "user", c.User, "pid", c.PID, "why", c.Refusal)
	_, err := g.store.Journal.AddEvent(context.WithoutCancel(ctx), ops.Event{
		At: now, Level: ops.LevelCritical, Verb: ops.VerbLocalRefused, Reason: c.Refusal,
		Detail: ops.WallDetail{What: door, User: c.User},
	})
	if err != nil {
		g.Logger.ErrorContext(ctx, "cannot record that a local process was refused", "error", err)
	}
}

// refusals remembers what was recorded lately.
type refusals struct {
	sync.Mutex
	at map[string]time.Time
}

// localAPI serves the API to a user of this machine, whom the kernel has named.
func localAPI(site http.Handler) func(user string) http.Handler {
	return func(user string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r = r.WithContext(web.WithLocalUser(r.Context(), user))
			r.RemoteAddr = "control socket"
			site.ServeHTTP(w, r)
		})
	}
}

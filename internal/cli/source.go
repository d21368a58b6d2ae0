package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"claudeops/internal/agent/process"
	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/daemon/control"
	"claudeops/internal/store"
)

// read gives a command the API to read rows from: that of a server, or the same one in this process.
func (a *app) read(ctx context.Context, use func(*client) error) error {
	if a.remote == nil && a.databaseClosed() {
		if err := a.useDaemon(ctx); err != nil {
			return err
		}
	}
	if a.remote != nil {
		return use(a.remote)
	}
	return a.reading(ctx, func(s *store.Store, cfg *config.Config) error { return use(a.direct(s, cfg)) })
}

// databaseClosed reports whether this user may not open the database: a member of the group claudeops asks the daemon for the rows.
func (a *app) databaseClosed() bool {
	cfg, err := a.load()
	if err != nil || cfg.DatabaseURL != "" {
		return false
	}
	f, err := os.Open(daemon.DatabasePath(cfg))
	if err == nil {
		err = f.Close()
	}
	return errors.Is(err, fs.ErrPermission)
}

// change gives a command the API to change rows through. A daemon on the state folder makes the change itself, so that it wakes what
// waits for it.
func (a *app) change(ctx context.Context, use func(*client) error) error {
	if a.remote == nil {
		if err := a.useDaemon(ctx); err != nil {
			return err
		}
	}
	if a.remote != nil {
		return use(a.remote)
	}
	return a.writing(ctx, func(s *store.Store, cfg *config.Config) error { return use(a.direct(s, cfg)) })
}

// on runs a command that reads, or changes, rows of the API.
func on(
	way func(context.Context, func(*client) error) error, do func(c *cobra.Command, s *client, args []string) error,
) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		return way(c.Context(), func(s *client) error { return do(c, s, args) })
	}
}

// readOne runs a command that reads the row it names.
func readOne[ID ~int64](a *app, do func(ctx context.Context, s *client, id ID) error) func(*cobra.Command, []string) error {
	return onOne(a.read, do)
}

// changeOne runs a command that changes the row it names.
func changeOne[ID ~int64](a *app, do func(ctx context.Context, s *client, id ID) error) func(*cobra.Command, []string) error {
	return onOne(a.change, do)
}

func onOne[ID ~int64](
	way func(context.Context, func(*client) error) error, do func(ctx context.Context, s *client, id ID) error,
) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		read := number
		if c.Parent().Name() == "cycles" {
			read = cycleNumber
		}
		id, err := read(args[0])
		if err != nil {
			return err
		}
		return way(c.Context(), func(s *client) error { return do(c.Context(), s, ID(id)) })
	}
}

// atServer is the mark of commands that can ask a server. The tokens of this machine never stand for those of a server.
const (
	atServer = "server"
	canAsk   = "can"
	neverAsk = "never"
)

// anywhere marks a command that only needs rows of the API, and gives it flags for the place of the database.
func (a *app) anywhere(c *cobra.Command) *cobra.Command {
	c.Annotations = map[string]string{atServer: canAsk}
	return a.withState(c)
}

// chooseServer finds out whether a command asks a server, and with which token.
func (a *app) chooseServer(c *cobra.Command) error {
	r, err := config.ReadRemote(config.Remote{Server: a.serverURL, TokenFile: a.tokenFile}, a.Environ)
	mark := c.Annotations[atServer]
	switch {
	case mark == "" && a.serverURL == "":
		return nil
	case mark != canAsk && (err != nil || r.Server != ""):
		return usage(fmt.Errorf("%s: %w", c.CommandPath(), errLocalOnly))
	case err != nil:
		return usage(err)
	case r.Server == "":
		return nil
	}
	if r.Token == "" {
		r.Token = a.madeToken(r.Server)
	}
	a.remote = newClient(r.Server, r.Token)
	return nil
}

// madeToken is the token that a daemon on this machine made, if the server is on this machine and the token can be read.
func (a *app) madeToken(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return ""
	}
	cfg, err := a.load()
	if err != nil {
		return "" // the server then says that it wants a token
	}
	token, err := daemon.Token(cfg)
	if err != nil {
		return ""
	}
	return token
}

// errInSession is what a command says that an agent starts.
var errInSession = errors.New("this command was started inside a session of an agent; agents may not change anything here")

// useDaemon makes the daemon of the state folder the server, if one is running.
func (a *app) useDaemon(ctx context.Context) error {
	if process.InSession() {
		return errInSession
	}
	cfg, err := a.load()
	if err != nil {
		return err
	}
	_, err = control.Ping(ctx, cfg.StateDir)
	if errors.Is(err, control.ErrNoDaemon) {
		return nil
	}
	if err != nil {
		return err
	}
	web, address := control.Client(cfg.StateDir)
	a.remote = newClient(address, cfg.APIToken)
	a.remote.Client = web
	return nil
}

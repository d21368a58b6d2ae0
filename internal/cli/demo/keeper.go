package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// readyTimeout is how long a started service may take to answer.
const readyTimeout = 10 * time.Second

// KeeperConfig is what a keeper needs.
type KeeperConfig struct {
	// Dir holds all files of the demo. Its path must be short enough for a socket in it.
	Dir string
	// Command starts the service; the keeper appends --dir and --listen.
	Command []string
	Log     *slog.Logger
}

// Keeper owns the service: its address, its process and the library behind it.
type Keeper struct {
	dir     string
	command []string
	log     *slog.Logger

	front    net.Listener // the service's address; open here, so that it stays the same after a restart
	handed   *os.File     // front, as it is handed down
	good     string       // address of the library
	requests chan request
	over     <-chan struct{} // closed when the keeper stops

	stop context.CancelCauseFunc
	work sync.WaitGroup
}

// request asks the keeper's one worker for something.
type request struct {
	verb  Verb
	gone  <-chan struct{} // closed when the sender no longer waits
	reply chan reply
}

type reply struct {
	text string
	err  error
}

// Reasons why the keeper stops a request.
var (
	errClosed     = errors.New("the demo has ended")
	errSenderGone = errors.New("the sender no longer waits")
)

// StartKeeper starts the library and a healthy service, and returns when the service answers. The keeper lives until
// Close or until ctx ends; Close must be called in both cases.
func StartKeeper(ctx context.Context, cfg KeeperConfig) (*Keeper, error) {
	if len(cfg.Command) == 0 {
		return nil, errors.New("start demo service: no command")
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create demo folder: %w", err)
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("find demo folder: %w", err)
	}
	k := &Keeper{dir: dir, command: cfg.Command, log: cfg.Log, requests: make(chan request)}
	life, stop := context.WithCancelCause(ctx)
	k.stop, k.over = stop, life.Done()
	if err := k.open(life); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	for _, verb := range []Verb{Redeploy, RebuildCache} {
		if _, err := k.Do(ctx, verb); err != nil {
			return nil, errors.Join(err, k.Close())
		}
	}
	return k, nil
}

// open opens everything that needs no service process, and starts the keeper's goroutines.
func (k *Keeper) open(life context.Context) error {
	library, err := Listen(life, "127.0.0.1:0")
	if err != nil {
		return err
	}
	k.good = library.Addr().String()
	k.serveUntil(life, library, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, "library ok")
	}))
	if k.front, err = Listen(life, "127.0.0.1:0"); err != nil {
		return err
	}
	tcp, ok := k.front.(*net.TCPListener)
	if !ok {
		return fmt.Errorf("hand listener down: %T is not a TCP listener", k.front)
	}
	if k.handed, err = tcp.File(); err != nil {
		return fmt.Errorf("hand listener down: %w", err)
	}
	if err := replaceFile(filepath.Join(k.dir, goodConfFile), confText("as released", k.good)); err != nil {
		return err
	}
	if err := replaceFile(filepath.Join(k.dir, urlFile), k.URL()+"\n"); err != nil {
		return err
	}
	socket, err := listenSocket(life, k.dir)
	if err != nil {
		return err
	}
	k.work.Go(func() { k.answerSocket(life, socket) })
	k.work.Go(func() { k.run(life) })
	return nil
}

func (k *Keeper) serveUntil(life context.Context, ln net.Listener, h http.Handler) {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: upstreamTimeout,
		ErrorLog: slog.NewLogLogger(k.log.Handler(), slog.LevelWarn),
	}
	k.work.Go(func() {
		if err := serve(life, server, ln); err != nil {
			k.log.WarnContext(life, "the demo's library stopped", "error", err)
		}
	})
}

// URL is the address of the service; it stays the same after a restart.
func (k *Keeper) URL() string { return "http://" + k.front.Addr().String() }

// Close stops the service and everything that the keeper started, and waits for them.
func (k *Keeper) Close() error {
	k.stop(errClosed)
	k.work.Wait()
	var errs []error
	if k.handed != nil {
		errs = append(errs, k.handed.Close())
		k.handed = nil
	}
	if k.front != nil {
		if err := k.front.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Do runs a verb and returns its output.
func (k *Keeper) Do(ctx context.Context, verb Verb) (string, error) {
	r := request{verb: verb, gone: ctx.Done(), reply: make(chan reply, 1)}
	select {
	case k.requests <- r:
	case <-k.over:
		return "", errClosed
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	select {
	case got := <-r.reply:
		return got.text, got.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// run starts and stops the service; nothing else does. It stays on one thread, because the service gets its signal when the
// thread that started it ends.
func (k *Keeper) run(life context.Context) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := &worker{keeper: k}
	defer s.stop(context.WithoutCancel(life))
	for {
		select {
		case <-life.Done():
			return
		case r := <-k.requests:
			r.reply <- s.handle(life, r)
		}
	}
}

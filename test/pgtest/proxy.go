package pgtest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy passes connections on to a server, each way later by a delay.
type Proxy struct {
	listener net.Listener
	target   string
	delay    time.Duration
	lose     atomic.Bool // the next answer is lost with its connection
	deaf     atomic.Bool // answers are dropped, and connections stay open
	cut      atomic.Bool // nothing passes, and nobody is told
	open     sync.WaitGroup
	mu       sync.Mutex
	conns    map[net.Conn]bool
	traffic  traffic
}

// NewProxy stands before the server of an address.
func NewProxy(ctx context.Context, address string, delay time.Duration) (*Proxy, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	p := &Proxy{listener: l, target: u.Host, delay: delay, conns: map[net.Conn]bool{}, traffic: traffic{all: Traffic{Statements: map[string]int{}}}}
	p.open.Go(p.accept)
	return p, nil
}

// Address is the address of the database through the proxy.
func (p *Proxy) Address(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	u.Host = p.listener.Addr().String()
	return u.String()
}

// LoseAnswer ends the next connection that the server answers on, instead of passing the answer on.
func (p *Proxy) LoseAnswer() { p.lose.Store(true) }

// Deafen drops what the server answers, on every connection, until it is called again with false. One that has lost something stays half
// dead: it takes what is sent and answers nothing.
func (p *Proxy) Deafen(deaf bool) { p.deaf.Store(deaf) }

// Cut loses what either side sends, and tells nobody, until Mend.
func (p *Proxy) Cut() { p.cut.Store(true) }

// Mend lets new connections through. The old ones have lost what they were saying, so they end.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close() // that is what we want
	}
	clear(p.conns)
	p.cut.Store(false)
}

// Close ends all connections.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.Mend()
	p.open.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target) //nolint:noctx // loopback
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		asked := &reader{to: &p.traffic, prepared: map[string]string{}}
		p.open.Go(func() {
			p.pass(client, server, func(b []byte) bool {
				asked.read(b)
				return !p.cut.Load()
			})
		})
		p.open.Go(func() {
			dead := false
			p.pass(server, client, func([]byte) bool {
				if p.lose.Swap(false) {
					_ = client.Close() // what is written to it afterwards is lost
				}
				dead = dead || p.deaf.Load()
				return !dead && !p.cut.Load()
			})
		})
	}
}

// pass copies what one side sends to the other, after the delay, if seen says so, which gets it when it arrives here.
func (p *Proxy) pass(from, to net.Conn, seen func([]byte) bool) {
	type chunk struct {
		at   time.Time
		data []byte
	}
	chunks := make(chan chunk, 1000)
	p.open.Go(func() {
		defer func() { _ = to.Close() }() // the other side has ended
		for c := range chunks {
			time.Sleep(time.Until(c.at)) //nolint:forbidigo // the latency is what it is for
			if _, err := to.Write(c.data); err != nil {
				_ = from.Close() // ends the reading below
			}
		}
	})
	defer close(chunks)
	for {
		b := make([]byte, 32<<10)
		n, err := from.Read(b)
		if n > 0 && seen(b[:n]) {
			chunks <- chunk{time.Now().Add(p.delay), b[:n]}
		}
		if err != nil {
			return
		}
	}
}

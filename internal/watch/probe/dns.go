package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

func recordTypes() []string { return []string{"A", "AAAA", "CNAME", "MX", "TXT", "NS", "SRV"} }

func record(spec ops.ProbeSpec) string {
	return cmp.Or(strings.ToUpper(spec.Record), "A")
}

// dns looks up a name. Names in the machine's hosts file are answered from there, as for every program.
func (p *Prober) dns(ctx context.Context, spec ops.ProbeSpec) finding {
	answers, err := lookup(ctx, p.resolver(spec), record(spec), spec.Host)
	if err == nil && len(answers) == 0 {
		return down("%s has no %s record", spec.Host, record(spec))
	}
	if err != nil {
		return down("%s", lookupReason(err, spec))
	}
	for _, value := range spec.Expect {
		if !slices.ContainsFunc(answers, func(a string) bool { return sameAnswer(record(spec), a, value) }) {
			return down("%s is not among the %s records of %s: %s", value, record(spec), spec.Host, strings.Join(answers, ", "))
		}
	}
	return healthy()
}

func (p *Prober) resolver(spec ops.ProbeSpec) *net.Resolver {
	if spec.Server == "" {
		return &net.Resolver{PreferGo: true}
	}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return p.dialer.DialContext(ctx, network, serverAddress(spec.Server))
	}}
}

func serverAddress(server string) string {
	if _, _, err := net.SplitHostPort(server); err == nil {
		return server
	}
	return net.JoinHostPort(strings.Trim(server, "[]"), "53")
}

// lookup returns the answers as texts: "10 mail.example.org" for MX, "priority weight port target" for SRV.
func lookup(ctx context.Context, r *net.Resolver, record, host string) ([]string, error) {
	full := strings.TrimSuffix(host, ".") + "." // without the search list of the machine
	var out []string
	switch record {
	case "A", "AAAA":
		addresses, err := r.LookupNetIP(ctx, map[string]string{"A": "ip4", "AAAA": "ip6"}[record], full)
		for _, a := range addresses {
			out = append(out, a.Unmap().String())
		}
		return out, err
	case "CNAME":
		name, err := r.LookupCNAME(ctx, full)
		if err != nil || strings.EqualFold(name, full) {
			return nil, err
		}
		return []string{withoutDot(name)}, nil
	case "MX":
		records, err := r.LookupMX(ctx, full)
		for _, m := range records {
			out = append(out, fmt.Sprintf("%d %s", m.Pref, withoutDot(m.Host)))
		}
		return out, err
	case "TXT":
		return r.LookupTXT(ctx, full)
	case "NS":
		records, err := r.LookupNS(ctx, full)
		for _, n := range records {
			out = append(out, withoutDot(n.Host))
		}
		return out, err
	case "SRV":
		_, records, err := r.LookupSRV(ctx, "", "", full)
		for _, s := range records {
			out = append(out, fmt.Sprintf("%d %d %d %s", s.Priority, s.Weight, s.Port, withoutDot(s.Target)))
		}
		return out, err
	}
	return nil, fmt.Errorf("unknown record type %q: use %s", record, strings.Join(recordTypes(), ", "))
}

func withoutDot(name string) string { return strings.TrimSuffix(name, ".") }

// sameAnswer also takes the host alone for MX and SRV, and host:port for SRV.
func sameAnswer(record, answer, want string) bool {
	if record == "TXT" {
		return answer == want
	}
	want = withoutDot(want)
	fields := strings.Fields(answer)
	host := fields[len(fields)-1]
	forms := []string{answer, host}
	if record == "SRV" {
		forms = append(forms, host+":"+fields[2])
	}
	return slices.ContainsFunc(forms, func(f string) bool { return strings.EqualFold(f, want) })
}

func lookupReason(err error, spec ops.ProbeSpec) string {
	var failed *net.DNSError
	switch {
	case errors.As(err, &failed) && failed.IsNotFound:
		return fmt.Sprintf("%s has no %s record", spec.Host, record(spec))
	case errors.As(err, &failed) && failed.IsTimeout:
		return "the name server gave no answer"
	case errors.As(err, &failed):
		return "name lookup failed: " + failed.Err
	}
	return reason(err)
}

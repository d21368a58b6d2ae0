package probe

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

// answers maps "TYPE name" to ready-made record data.
type answers map[string][][]byte

func wireName(name string) []byte {
	var out []byte
	for label := range strings.SplitSeq(strings.Trim(name, "."), ".") {
		out = append(append(out, byte(len(label))), label...)
	}
	return append(out, 0)
}

func numbers(values ...uint16) []byte {
	var out []byte
	for _, v := range values {
		out = binary.BigEndian.AppendUint16(out, v)
	}
	return out
}

// nameServer answers on loopback UDP until the test ends.
func nameServer(t *testing.T, zone answers) string {
	t.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	must(t, err)
	ended := make(chan struct{})
	t.Cleanup(func() { _ = conn.Close(); <-ended })
	go func() {
		defer close(ended)
		query := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(query)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(zone.reply(query[:n]), from)
		}
	}()
	return conn.LocalAddr().String()
}

func (z answers) reply(query []byte) []byte {
	codes := map[uint16]string{1: "A", 2: "NS", 5: "CNAME", 15: "MX", 16: "TXT", 28: "AAAA", 33: "SRV"}
	var labels []string
	at := 12
	for query[at] != 0 {
		labels = append(labels, string(query[at+1:at+1+int(query[at])]))
		at += 1 + int(query[at])
	}
	name, code := strings.Join(labels, "."), binary.BigEndian.Uint16(query[at+1:])
	question := query[12 : at+5]
	found := z[codes[code]+" "+name]
	if alias := z["CNAME "+name]; len(found) == 0 {
		found, code = alias, 5
	}
	flags := uint16(0x8180)
	known := false
	for key := range z {
		known = known || strings.HasSuffix(key, " "+name)
	}
	switch {
	case name == "broken.example.org":
		flags |= 2
	case !known:
		flags |= 3
	}
	out := append(append([]byte{}, query[:2]...), numbers(flags, 1, uint16(len(found)), 0, 0)...)
	out = append(out, question...)
	for _, data := range found {
		out = append(out, 0xc0, 12)
		out = append(out, numbers(code, 1, 0, 60, uint16(len(data)))...)
		out = append(out, data...)
	}
	return out
}

func TestNamesAreLookedUp(t *testing.T) {
	v4, v6 := netip.MustParseAddr("192.0.2.7").AsSlice(), netip.MustParseAddr("2001:db8::7").AsSlice()
	server := nameServer(t, answers{
		"A web.example.org":          {v4},
		"AAAA web.example.org":       {v6},
		"CNAME www.example.org":      {wireName("web.example.org")},
		"MX example.org":             {append(numbers(10), wireName("mail.example.org")...)},
		"TXT example.org":            {append([]byte{byte(len("v=spf1 -all"))}, "v=spf1 -all"...)},
		"NS example.org":             {wireName("ns1.example.org"), wireName("ns2.example.org")},
		"SRV _ldap._tcp.example.org": {append(numbers(0, 5, 389), wireName("ldap.example.org")...)},
	})
	cases := []struct {
		name    string
		spec    ops.ProbeSpec
		problem string
	}{
		{"any address", ops.ProbeSpec{Host: "web.example.org"}, ""},
		{"address", ops.ProbeSpec{Host: "web.example.org.", Record: "a", Expect: []string{"192.0.2.7"}}, ""},
		{
			"other address",
			ops.ProbeSpec{Host: "web.example.org", Expect: []string{"192.0.2.8"}},
			"192.0.2.8 is not among the A records of web.example.org: 192.0.2.7",
		},
		{"IPv6", ops.ProbeSpec{Host: "web.example.org", Record: "AAAA", Expect: []string{"2001:DB8::7"}}, ""},
		{"alias", ops.ProbeSpec{Host: "www.example.org", Record: "CNAME", Expect: []string{"Web.Example.Org."}}, ""},
		{"no alias", ops.ProbeSpec{Host: "web.example.org", Record: "CNAME"}, "web.example.org has no CNAME record"},
		{"mail", ops.ProbeSpec{Host: "example.org", Record: "MX", Expect: []string{"mail.example.org"}}, ""},
		{"mail with preference", ops.ProbeSpec{Host: "example.org", Record: "MX", Expect: []string{"10 mail.example.org"}}, ""},
		{
			"other preference",
			ops.ProbeSpec{Host: "example.org", Record: "MX", Expect: []string{"20 mail.example.org"}},
			"20 mail.example.org is not among the MX records of example.org: 10 mail.example.org",
		},
		{"text", ops.ProbeSpec{Host: "example.org", Record: "TXT", Expect: []string{"v=spf1 -all"}}, ""},
		{"name servers", ops.ProbeSpec{Host: "example.org", Record: "NS", Expect: []string{"ns1.example.org", "ns2.example.org"}}, ""},
		{
			"missing name server",
			ops.ProbeSpec{Host: "example.org", Record: "NS", Expect: []string{"ns1.example.org", "ns3.example.org"}},
			"ns3.example.org is not among the NS records of example.org: ns1.example.org, ns2.example.org",
		},
		{"service", ops.ProbeSpec{Host: "_ldap._tcp.example.org", Record: "SRV", Expect: []string{"ldap.example.org:389"}}, ""},
		{"unknown name", ops.ProbeSpec{Host: "gone.example.org"}, "gone.example.org has no A record"},
		{"failing server", ops.ProbeSpec{Host: "broken.example.org"}, "name lookup failed: server misbehaving"},
		{
			"unknown record",
			ops.ProbeSpec{Host: "example.org", Record: "HINFO"},
			`unknown record type "HINFO": use A, AAAA, CNAME, MX, TXT, NS, SRV`,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.spec.Type, c.spec.Server = "dns", server
			status := ops.Healthy
			if c.problem != "" {
				status = ops.Down
			}
			got := run(t, c.spec)
			want(t, got, status, c.problem)
			if got.Type != ops.CheckDNS || got.Probe != "dns "+record(c.spec)+" "+c.spec.Host {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestASilentNameServerIsDown(t *testing.T) {
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = conn.Close() }()
	got := run(t, ops.ProbeSpec{Type: "dns", Host: "web.example.org", Server: conn.LocalAddr().String(), Timeout: 50 * time.Millisecond})
	want(t, got, ops.Down, "no answer within 50ms")
}

func TestANameServerMayLackItsPort(t *testing.T) {
	for given, want := range map[string]string{
		"192.0.2.1": "192.0.2.1:53", "192.0.2.1:5353": "192.0.2.1:5353", "[2001:db8::1]": "[2001:db8::1]:53", "2001:db8::1": "[2001:db8::1]:53",
	} {
		if got := serverAddress(given); got != want {
			t.Errorf("%s: got %s, want %s", given, got, want)
		}
	}
}

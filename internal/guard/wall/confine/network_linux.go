package confine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// open makes a network namespace in which every address is its own, listens on the ports, and starts the relay that passes connections
// on. It needs CAP_SYS_ADMIN, CAP_NET_ADMIN and CAP_NET_BIND_SERVICE; the walls take them away before the agent starts. bubblewrap could
// make the namespace, but for an ordinary user it then moves on to another user namespace, which has no rights in this one.
//
// All addresses are local there, so a person's `curl http://192.168.1.10:8096/` works as it is written, and what is not permitted
// reaches the supervisor too, which refuses and records it.
func (n *Network) open(walls []*Wall) error {
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make network namespace: %w", err)
	}
	if err := localRoutes(); err != nil {
		return err
	}
	files := []uintptr{}
	defer func() {
		for _, fd := range files {
			_ = syscall.Close(int(fd))
		}
	}()
	for range 3 {
		null, err := syscall.Open(os.DevNull, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("start network relay: %w", err)
		}
		files = append(files, uintptr(null))
	}
	for _, port := range n.Ports {
		fd, err := listen(port)
		if err != nil {
			return fmt.Errorf("listen on port %d of the session: %w", port, err)
		}
		files = append(files, uintptr(fd))
	}
	fd, err := listenPackets(dnsPort)
	if err != nil {
		return fmt.Errorf("listen for names in the session: %w", err)
	}
	files = append(files, uintptr(fd))
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("start network relay: %w", err)
	}
	relay, err := Arguments(self, Plan{Relay: n}, self, nil)
	if err != nil {
		return err
	}
	argv, err := Arguments(self, Plan{Walls: walls}, self, relay)
	if err != nil {
		return err
	}
	if _, err = syscall.ForkExec(self, argv, &syscall.ProcAttr{Files: files, Dir: "/", Env: []string{}}); err != nil {
		return fmt.Errorf("start network relay: %w", err)
	}
	return nil
}

// ownNetwork opens the network namespace of the calling thread; others of the process do not have it by themselves. The number of a
// thread would not find it: the process may be in another pid namespace than its /proc.
func ownNetwork() (fd int, err error) {
	if fd, err = syscall.Open("/proc/thread-self/ns/net", syscall.O_RDONLY|syscall.O_CLOEXEC, 0); err != nil {
		err = fmt.Errorf("find network namespace: %w", err)
	}
	return fd, err
}

// join puts the calling thread into a network namespace.
func join(network int) error {
	_, _, errno := syscall.RawSyscall(callSetns, uintptr(network), syscall.CLONE_NEWNET, 0)
	_ = syscall.Close(network)
	if errno != 0 {
		return fmt.Errorf("join network namespace: %w", errno)
	}
	return nil
}

// loopback is the first interface of every namespace.
const loopback = 1

// localRoutes routes everything to this machine, as `ip route add local default dev lo` does, and gives it an address beside 127.0.0.1:
// many programs do not look for names where there is no other.
func localRoutes() error {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open route table: %w", err)
	}
	defer func() { _ = syscall.Close(fd) }()
	index := binary.NativeEndian.AppendUint32(nil, loopback)
	route := func(family byte) []byte {
		return []byte{family, 0, 0, 0, syscall.RT_TABLE_LOCAL, syscall.RTPROT_BOOT, syscall.RT_SCOPE_HOST, syscall.RTN_LOCAL, 0, 0, 0, 0}
	}
	up := binary.NativeEndian.AppendUint32(make([]byte, 4), loopback)
	up = binary.NativeEndian.AppendUint32(up, syscall.IFF_UP)
	err = change(fd, syscall.RTM_NEWLINK, binary.NativeEndian.AppendUint32(up, syscall.IFF_UP), 0, nil)
	if err == nil {
		err = change(fd, syscall.RTM_NEWROUTE, route(syscall.AF_INET), syscall.RTA_OIF, index)
	}
	if err == nil {
		address := append([]byte{syscall.AF_INET, 32, 0, syscall.RT_SCOPE_HOST}, index...)
		err = change(fd, syscall.RTM_NEWADDR, address, syscall.IFA_LOCAL, []byte{127, 64, 0, 1})
	}
	if err != nil {
		return fmt.Errorf("make addresses local: %w", err)
	}
	_ = change(fd, syscall.RTM_NEWROUTE, route(syscall.AF_INET6), syscall.RTA_OIF, index) // many machines have no IPv6
	return nil
}

// change asks the kernel for one change with at most one attribute, of 4 bytes.
func change(fd int, kind uint16, body []byte, attribute uint16, value []byte) error {
	if len(value) > 0 {
		body = binary.NativeEndian.AppendUint16(body, syscall.SizeofRtAttr+4)
		body = append(binary.NativeEndian.AppendUint16(body, attribute), value...)
	}
	size := syscall.SizeofNlMsghdr + len(body)
	m := binary.NativeEndian.AppendUint32(nil, uint32(size)) //nolint:gosec // some dozen bytes
	m = binary.NativeEndian.AppendUint16(m, kind)
	m = binary.NativeEndian.AppendUint16(m, syscall.NLM_F_REQUEST|syscall.NLM_F_ACK|syscall.NLM_F_CREATE)
	m = append(append(m, make([]byte, 8)...), body...) // no sequence, no sender
	if err := syscall.Sendto(fd, m, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 512)
	got, _, err := syscall.Recvfrom(fd, answer, 0)
	if err != nil || got < syscall.SizeofNlMsghdr+4 {
		return errors.Join(errors.New("the kernel gave no answer"), err)
	}
	code := syscall.Errno(-int32(binary.NativeEndian.Uint32(answer[syscall.SizeofNlMsghdr:]))) //nolint:gosec // a negative error number
	if code != 0 {
		return code
	}
	return nil
}

// listen opens a port on every address.
func listen(port int) (fd int, err error) {
	const kind = syscall.SOCK_STREAM | socketFlags
	var at syscall.Sockaddr = &syscall.SockaddrInet6{Port: port}
	if fd, err = syscall.Socket(syscall.AF_INET6, kind, 0); err == nil {
		err = syscall.SetsockoptInt(fd, syscall.IPPROTO_IPV6, syscall.IPV6_V6ONLY, 0)
	} else if fd, err = syscall.Socket(syscall.AF_INET, kind, 0); err == nil {
		at = &syscall.SockaddrInet4{Port: port}
	}
	if err == nil {
		err = syscall.Bind(fd, at)
	}
	if err == nil {
		err = syscall.Listen(fd, syscall.SOMAXCONN)
	}
	return fd, err
}

// listenPackets opens a UDP port that tells at which address a packet came in.
func listenPackets(port int) (fd int, err error) {
	if fd, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|socketFlags, 0); err != nil {
		return 0, err
	}
	if err = syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, syscall.IP_PKTINFO, 1); err != nil {
		return 0, err
	}
	return fd, syscall.Bind(fd, &syscall.SockaddrInet4{Port: port})
}

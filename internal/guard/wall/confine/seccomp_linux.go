//go:build linux && (amd64 || arm64)

package confine

import (
	"fmt"
	"syscall"
	"unsafe"
)

const (
	prSetSeccomp = 22
	modeFilter   = 2

	actAllow   = 0x7fff0000
	actError   = 0x00050000
	actKill    = 0x80000000
	loadWord   = 0x20 // BPF_LD | BPF_W | BPF_ABS
	jumpEqual  = 0x15 // BPF_JMP | BPF_JEQ | BPF_K
	jumpBits   = 0x45 // BPF_JMP | BPF_JSET | BPF_K
	jumpAtMost = 0x25 // BPF_JMP | BPF_JGT | BPF_K: the true branch is "greater"
	jumpAlways = 0x05 // BPF_JMP | BPF_JA
	andWith    = 0x54 // BPF_ALU | BPF_AND | BPF_K
	returns    = 0x06 // BPF_RET | BPF_K

	offsetNumber = 0
	offsetArch   = 4
	offsetArg0   = 16
)

// newNamespaces are the flags of clone that make a namespace.
const newNamespaces = 0x7e020000

type instruction struct {
	code   uint16
	jt, jf uint8
	k      uint32
}

type program struct{ list []instruction }

func (p *program) add(code uint16, jt, jf uint8, k uint32) {
	p.list = append(p.list, instruction{code, jt, jf, k})
}

// refuse returns an error for a system call.
func (p *program) refuse(number uint32, errno syscall.Errno) {
	p.add(jumpEqual, 0, 1, number)
	p.add(returns, 0, 0, actError|uint32(errno)) //nolint:gosec // error numbers are small
}

// refuseIf returns an error for a system call whose argument passes a test. Only the low half of the argument is looked at: the
// arguments tested here are ints, and the kernel ignores their upper half too.
func (p *program) refuseIf(number uint32, arg int, code uint16, k uint32, whenTrue bool, errno syscall.Errno) {
	p.add(jumpEqual, 0, 4, number)
	p.add(loadWord, 0, 0, offsetArg0+8*uint32(arg)) //nolint:gosec // at most 5
	jt, jf := uint8(0), uint8(1)
	if !whenTrue {
		jt, jf = 1, 0
	}
	p.add(code, jt, jf, k)
	p.add(returns, 0, 0, actError|uint32(errno)) //nolint:gosec // error numbers are small
	p.add(loadWord, 0, 0, offsetNumber)
}

// touchOnly lets a program set the time of a file that it has open to now, as touch does for a file that it made, and refuses every
// other change of times. Both halves of the two pointers have to be zero.
func (p *program) touchOnly() {
	const words = 4
	p.add(jumpEqual, 0, 2*words+2, syscall.SYS_UTIMENSAT)
	for i := range uint32(words) {
		p.add(loadWord, 0, 0, offsetArg0+8+4*i)
		p.add(jumpEqual, 0, uint8(2*(words-i)-1), 0) //nolint:gosec // at most 7
	}
	p.add(jumpAlways, 0, 0, 1)
	p.add(returns, 0, 0, actError|uint32(syscall.EPERM))
	p.add(loadWord, 0, 0, offsetNumber)
}

// setIDBits let whoever runs a file do it as its owner or group: the operator's, long after the session.
const setIDBits = 0o6000

// noSetID refuses those bits wherever a mode can be given. A call that opens a file has one only if it makes the file.
func (p *program) noSetID() {
	const creates = 0x400040 // O_CREAT, O_TMPFILE
	for _, c := range modeCalls {
		p.refuseIf(c.call, c.arg, jumpBits, setIDBits, true, syscall.EPERM)
	}
	for _, c := range openCalls {
		p.add(jumpEqual, 0, 6, c.call)
		p.add(loadWord, 0, 0, offsetArg0+8*uint32(c.arg)) //nolint:gosec // at most 5
		p.add(jumpBits, 0, 3, creates)
		p.add(loadWord, 0, 0, offsetArg0+8*uint32(c.arg+1)) //nolint:gosec // the same
		p.add(jumpBits, 0, 1, setIDBits)
		p.add(returns, 0, 0, actError|uint32(syscall.EPERM))
		p.add(loadWord, 0, 0, offsetNumber)
	}
	p.refuse(callOpenat2, syscall.ENOSYS) // its mode is in memory; programs use openat then
}

// onlyTCP leaves Unix sockets and TCP. Landlock knows nothing of other protocols, nor of data that is sent before a connection is made.
func (p *program) onlyTCP() {
	const (
		kinds    = 0xf // the rest are flags
		noFamily = 11  // above AF_INET6 there is nothing that commands need
		fastOpen = 0x20000000
	)
	for family := range uint32(noFamily) {
		if family != syscall.AF_UNIX && family != syscall.AF_INET && family != syscall.AF_INET6 {
			p.refuseIf(syscall.SYS_SOCKET, 0, jumpEqual, family, true, syscall.EAFNOSUPPORT)
		}
	}
	p.refuseIf(syscall.SYS_SOCKET, 0, jumpAtMost, noFamily-1, true, syscall.EAFNOSUPPORT)
	for _, family := range []uint32{syscall.AF_INET, syscall.AF_INET6} {
		// socket(family, kind, protocol): a stream, of the protocol TCP or of the family's own choice.
		p.add(jumpEqual, 0, 9, syscall.SYS_SOCKET)
		p.add(loadWord, 0, 0, offsetArg0)
		p.add(jumpEqual, 0, 7, family)
		p.add(loadWord, 0, 0, offsetArg0+8)
		p.add(andWith, 0, 0, kinds)
		p.add(jumpEqual, 0, 3, syscall.SOCK_STREAM)
		p.add(loadWord, 0, 0, offsetArg0+16)
		p.add(jumpEqual, 2, 0, 0)
		p.add(jumpEqual, 1, 0, syscall.IPPROTO_TCP)
		p.add(returns, 0, 0, actError|uint32(syscall.EACCES))
		p.add(loadWord, 0, 0, offsetNumber)
	}
	for _, flags := range []argumentOf{{call: syscall.SYS_SENDTO, arg: 3}, {call: syscall.SYS_SENDMSG, arg: 2}, {call: callSendmmsg, arg: 3}} {
		p.refuseIf(flags.call, flags.arg, jumpBits, fastOpen, true, syscall.EOPNOTSUPP)
	}
}

// filter builds the program of a wall.
func filter(w *Wall) []instruction {
	p := &program{}
	p.add(loadWord, 0, 0, offsetArch)
	p.add(jumpEqual, 1, 0, auditArch)
	p.add(returns, 0, 0, actKill)
	p.add(loadWord, 0, 0, offsetNumber)
	if highestNumber != 0 { // the other set of numbers that the same architecture has
		p.add(jumpAtMost, 0, 1, highestNumber)
		p.add(returns, 0, 0, actError|uint32(syscall.ENOSYS))
	}
	for _, n := range refusedCalls {
		p.refuse(n, syscall.EPERM)
	}
	p.refuse(callClone3, syscall.ENOSYS) // its flags are in memory; programs use clone then
	p.refuseIf(syscall.SYS_CLONE, 0, jumpBits, newNamespaces, true, syscall.EPERM)
	p.refuseIf(syscall.SYS_IOCTL, 1, jumpEqual, 0x5412, true, syscall.EPERM) // TIOCSTI types into the terminal
	p.refuseIf(syscall.SYS_IOCTL, 1, jumpEqual, 0x541c, true, syscall.EPERM) // TIOCLINUX too
	p.noSetID()
	for _, n := range ownProcessOnly {
		p.refuseIf(n.call, n.arg, jumpEqual, n.want, false, syscall.EPERM)
	}
	const afALG, afVsock = 38, 40
	p.refuseIf(syscall.SYS_SOCKET, 0, jumpEqual, afALG, true, syscall.EAFNOSUPPORT)
	p.refuseIf(syscall.SYS_SOCKET, 0, jumpEqual, afVsock, true, syscall.EAFNOSUPPORT)
	if len(w.Ports) > 0 {
		p.onlyTCP()
	}
	if w.NoSockets {
		p.refuse(syscall.SYS_SOCKET, syscall.EACCES)
	}
	if w.NoUnix {
		p.refuseIf(syscall.SYS_SOCKET, 0, jumpEqual, syscall.AF_UNIX, true, syscall.EACCES)
	}
	if w.NoShared {
		for _, n := range sharedCalls {
			p.refuse(n, syscall.EPERM)
		}
	}
	if w.KeepMetadata {
		for _, n := range metadataCalls {
			p.refuse(n, syscall.EPERM)
		}
		p.touchOnly()
	}
	p.add(returns, 0, 0, actAllow)
	return p.list
}

// SeccompAvailable reports whether the filter can be set on this architecture and kernel.
func SeccompAvailable() bool {
	const prGetSeccomp = 21
	_, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prGetSeccomp, 0, 0)
	return errno == 0
}

func filterCalls(w *Wall) error {
	list := filter(w)
	prog := struct {
		length uint16
		filter *instruction
	}{uint16(len(list)), &list[0]} //nolint:gosec // some hundred
	_, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetSeccomp, modeFilter, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		if w.Best && errno == syscall.EINVAL {
			return nil
		}
		return fmt.Errorf("set seccomp filter: %w", errno)
	}
	return nil
}

// argumentOf is the only value that an argument of a call may have.
type argumentOf struct {
	call uint32
	arg  int
	want uint32
}

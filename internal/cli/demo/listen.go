package demo

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// inherited marks a listener that was handed down by the parent process.
const inherited = "fd:"

// keeperListener is how the keeper hands its listener down: as the first file after the standard three.
const keeperListener = inherited + "3"

// Listen opens what the service listens on: an address, or fd:N for a listener handed down by the parent process.
func Listen(ctx context.Context, where string) (net.Listener, error) {
	number, ok := strings.CutPrefix(where, inherited)
	if !ok {
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp", where)
		if err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
		return ln, nil
	}
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("listen on %q: want fd:3 or higher", where)
	}
	file := os.NewFile(uintptr(fd), where)
	ln, err := net.FileListener(file)
	closeErr := file.Close() // FileListener made its own copy
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", where, err)
	}
	if closeErr != nil {
		return nil, fmt.Errorf("listen on %q: %w", where, closeErr)
	}
	return ln, nil
}

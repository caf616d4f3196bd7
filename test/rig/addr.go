package rig

import (
	"fmt"
	"net"
	"runtime"
	"syscall"
	"testing"
)

// FreeAddr returns a loopback address that nothing listens on, and that the system gives to no other process until the test ends:
// only the processes that the test starts, and restarts, can use it.
func FreeAddr(t testing.TB) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		return unheldAddr(t)
	}
	fd, err := socket()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	addr, err := hold(fd)
	if err != nil {
		t.Fatalf("finding a free address: %v", err)
	}
	return addr
}

// socket returns one that no child inherits.
func socket() (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	return fd, err
}

// hold binds a socket and does not listen on it. On Linux a process that asks for any port does not get this one then, and one that asks for
// this very one does, as long as both say SO_REUSEADDR (socket(7)), as package net and others do when they listen.
func hold(fd int) (string, error) {
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return "", err
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return "", err
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		return "", err
	}
	at, ok := name.(*syscall.SockaddrInet4)
	if !ok {
		return "", fmt.Errorf("the socket has the name %v", name)
	}
	return fmt.Sprintf("127.0.0.1:%d", at.Port), nil
}

// unheldAddr is an address that was free a moment ago.
func unheldAddr(t testing.TB) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	return lis.Addr().String()
}

package rig

import (
	"fmt"
	"net"
	"runtime"
	"syscall"
	"testing"
)

// FreeAddr returns a loopback address that nothing listens on. On Linux, the address stays reserved until the test ends: a process that asks for
// any port does not get it, and the processes of the test can listen on it one after another.
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

// socket returns a socket that no child process inherits.
func socket() (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	return fd, err
}

// hold binds a socket to a free port and does not listen on it. On Linux, a process that asks for any port then gets another one. A process that
// asks for this port by number gets it, because package net also sets SO_REUSEADDR (socket(7)).
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

// unheldAddr returns an address that was free a moment ago.
func unheldAddr(t testing.TB) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	return lis.Addr().String()
}

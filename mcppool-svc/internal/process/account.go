package process

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
)

// Account is a user of the operating system under which a child runs, instead of the pool's own.
type Account struct {
	name, home string
	uid, gid   uint32
	groups     []uint32 // with gid
}

// FindAccount returns the account with a name or a number; nil for the pool's own and for "". The error tells what to correct.
func FindAccount(name string) (*Account, error) {
	if name == "" {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if _, notNumber := strconv.ParseUint(name, 10, 32); errors.As(err, new(user.UnknownUserError)) && notNumber == nil {
		u, err = user.LookupId(name)
	}
	if err != nil {
		return nil, fmt.Errorf("it cannot run as %q: %w; correct `user`", name, err)
	}
	if u.Uid == strconv.Itoa(os.Geteuid()) {
		return nil, nil
	}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("it cannot run as %q: reading the groups of that user: %w", name, err)
	}
	a := &Account{name: u.Username, home: u.HomeDir}
	for i, id := range append([]string{u.Uid, u.Gid}, groups...) {
		n, err := strconv.ParseUint(id, 10, 32)
		switch {
		case err != nil:
			return nil, fmt.Errorf("it cannot run as %q: this system has no numbers of users; remove `user`", name)
		case i == 0:
			a.uid = uint32(n)
		case i == 1:
			a.gid = uint32(n)
		default:
			a.groups = append(a.groups, uint32(n))
		}
	}
	return a, nil
}

package sandbox

import (
	"encoding/gob"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	abi "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// systemFolders are those that programs read and execute. Home folders, /var, /run and /tmp are not among them, because they may hold secrets.
var systemFolders = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/snap", "/home/linuxbrew",
	"/proc", "/sys", "/run/systemd/resolve",
}

// versions are Landlock's restrictions by version of the kernel's interface.
var versions = []landlock.Config{
	landlock.V1, landlock.V2, landlock.V3, landlock.V4, landlock.V5, landlock.V6, landlock.V7, landlock.V8, landlock.V9, landlock.V10, landlock.V11,
}

// keptCapabilities are those that the superuser keeps in the sandbox, to work with files of other users. The others lead out of it.
var keptCapabilities = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_NET_BIND_SERVICE,
}

// become confines this process, the second one that the supervisor starts, and replaces it with the ordered program.
func become(ordered, status *os.File) {
	var o order
	err := gob.NewDecoder(ordered).Decode(&o)
	if err == nil {
		err = o.setLimits()
	}
	if err == nil {
		err = o.confine()
	}
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	for capability := range uintptr(unix.CAP_LAST_CAP + 1) {
		if !slices.Contains(keptCapabilities, capability) {
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0) // fails for users, who have none
		}
	}
	if err == nil {
		err = syscall.Exec(o.Path, o.Args, o.Env)
	}
	_ = gob.NewEncoder(status).Encode(outcome{Err: err.Error()})
}

// confine restricts this process to what the order allows. It is a no-op if the kernel has no Landlock; see Describe.
func (o *order) confine() error {
	version, _ := abi.LandlockGetABIVersion()
	if version < 1 {
		return nil
	}
	// Not BestEffort: on some kernels that means no restriction.
	config := versions[min(version, len(versions))-1]
	if o.Network || o.Isolated {
		config.HandledAccessNet = 0
	}
	rules := []landlock.Rule{
		landlock.RWFiles("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom").WithIoctlDev().IgnoreIfMissing(),
		landlock.PathAccess(config.HandledAccessFS&^(abi.AccessFSMakeChar|abi.AccessFSMakeBlock|abi.AccessFSIoctlDev), o.Write...),
	}
	for _, path := range append(systemFolders, o.Read...) {
		info, err := os.Stat(path)
		switch {
		case err != nil: // it does not exist, or must not be seen
		case info.IsDir():
			rules = append(rules, landlock.RODirs(path))
		default:
			rules = append(rules, landlock.ROFiles(path))
		}
	}
	if err := config.Restrict(rules...); err != nil || o.Network || !filtersSockets(version) {
		return err
	}
	return refuseUnixSockets()
}

// filtersSockets reports whether UNIX sockets are refused as a whole, because Landlock cannot refuse those of other programs.
func filtersSockets(version int) bool { return version < 9 && architecture != 0 }

// Describe returns `landlock` or `none`, followed by what is not confined, and why.
func Describe(network bool) string {
	version, _ := abi.LandlockGetABIVersion()
	if version < 1 {
		return "none: this kernel has no Landlock, or it is disabled"
	}
	var gaps []string
	if version < 3 {
		gaps = append(gaps, "existing files elsewhere can be truncated")
	}
	if version < 6 {
		gaps = append(gaps, "other processes of the user can be signalled")
	}
	if version < 9 && (network || !filtersSockets(version)) {
		gaps = append(gaps, "sockets in the file system can be reached, such as a container engine's")
	}
	switch {
	case network:
		gaps = append(gaps, "all networks can be used, also servers on this computer such as Pawl's own")
	case isolation() != nil:
	case version < 4:
		gaps = append(gaps, "the network can be used")
	case version < 10:
		gaps = append(gaps, "only TCP is refused, and on the loopback interface too")
	default:
		gaps = append(gaps, "TCP and UDP are refused on the loopback interface too")
	}
	name := "landlock"
	if !network && filtersSockets(version) {
		name = "landlock without UNIX sockets"
	}
	if len(gaps) == 0 {
		return name
	}
	return fmt.Sprintf("%s (version %d), but %s", name, version, strings.Join(gaps, "; "))
}

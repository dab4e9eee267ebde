# Becomes an emulated host: sh boot.sh NAME FOLDER SSHD PYTHON PYTHON_PREFIX, in namespaces of its own (emulation.py).
# Its root is this machine's. What it writes is kept in memory, and no other process sees it.
set -eu
name=$1 folder=$2 sshd=$3 python=$4 prefix=$5 user=parkazoo

hostname "$name"
mount -t tmpfs -o mode=755 tmpfs "$folder/$name"
cd "$folder/$name"
mkdir upper work root
mount -t overlay -o "lowerdir=/,upperdir=upper,workdir=work" overlay root
cd root
mount --rbind /dev dev
mount -t tmpfs tmpfs dev/shm
mount --rbind /sys sys
mount -t proc proc proc
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp

mkdir -p run/sshd "home/$user"
cp "$folder/host_key" "$folder/key.pub" run
cp "$folder/hosts" etc/hosts
echo "$user:x:64000:64000::/home/$user:/bin/sh" >>etc/passwd
echo "$user:*:19000::::::" >>etc/shadow
chown 64000:64000 "home/$user"

[ -e ".$python" ] || { mkdir -p ".$prefix" && mount --bind "$prefix" ".$prefix"; } # where it is on another disk
way=$prefix
while [ "$way" != / ]; do # the user may go that way, even if it begins in root's home
  chmod o+x ".$way"
  way=$(dirname "$way")
done

pivot_root . mnt
umount -l /mnt
exec "$sshd" -D -e -f /dev/null -h /run/host_key -o PidFile=none -o LogLevel=FATAL -o UsePAM=no -o UseDNS=no \
  -o AuthorizedKeysFile=/run/key.pub -o StrictModes=no -o PasswordAuthentication=no -o KbdInteractiveAuthentication=no \
  -o "AllowUsers=$user" -o "Subsystem=sftp internal-sftp" -o MaxStartups=200

"""The sources of the corpus: Debian packages, the reader of each, and its output file."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A part of the corpus: `reader` reads `packages`, and the pairs are added to `output`.

    In `packages`, "name" is a binary package and "src:name" the tarball of a source package, whose
    file name contains `tarball`.
    """

    name: str
    output: str
    reader: str
    packages: str
    tarball: str = ".tar"


SOURCES = (
    Source("manpages", "documents", "manuals", """
        manpages-de manpages-de-dev manpages manpages-dev systemd coreutils util-linux
        libsane-common mtools grub-common gettext kbd procps openssh-client openssh-server gzip
        man-db bzip2 uuid-dev systemd-journal-remote psutils xz-utils udev dosfstools
        bsdextrautils recutils systemd-container sysvinit-core systemd-boot login passwd texinfo
        net-tools lprng vorbis-tools nfs-common bsdgames systemd-coredump psmisc systemd-homed
        bsdutils mutt systemd-resolved debianutils zutils mount init-system-helpers glibc-doc
        hostname less systemd-oomd e2fsprogs netpbm sysstat diffutils grep util-linux-extra
        sane-utils lpr libcrypt-dev systemd-timesyncd iptables locales elogind wodim cron
        gettext-base nano x11-xserver-utils systemd-userdbd uuid-runtime fdisk kmod ncurses-bin
        cpio icedax ed install-info make groff-base info tar usbutils w3m zstd anacron at parted
        ghostscript debhelper devscripts po4a dpkg-dev dpkg apt apt-utils cups-client
        cups-daemon cups cups-bsd cups-ipp-utils cups-ppdc debconf debconf-doc debconf-utils
        debconf-i18n po-debconf calibre vdr-plugin-epgsearch svn-buildpackage mpgtx tvtime
        imgvtopgm schroot live-tools sensible-utils adduser fakeroot dos2unix mkvtoolnix xine-ui
        vim-common sgt-puzzles
        """),
    Source("libreoffice-help", "documents", "libreoffice_help", "src:libreoffice", "translations"),
    Source("installation-guide", "documents", "po", "src:installation-guide"),
    Source("debian-edu", "documents", "po", "src:debian-edu-doc"),
    Source("debian-manuals", "documents", "manuals", """
        debian-handbook harden-doc debian-reference-de debian-reference-en developers-reference
        developers-reference-de maint-guide maint-guide-de debmake-doc debian-faq debian-faq-de
        """),
    Source("tool-manuals", "documents", "po_manuals", "src:apt src:dpkg src:debconf src:aptitude"),
    Source("gimp-help", "documents", "manuals", "gimp-help-de gimp-help-en"),
    Source("gnome-help", "documents", "manuals", """
        gnome-user-docs gnome-devel-docs evolution-common evince-common orca seahorse
        shotwell-common gedit-common gthumb-data eog gnome-terminal-data gnome-calculator gnote
        gnome-system-monitor gnome-boxes pitivi gnome-applets-data epiphany-browser-data
        gtranslator zenity-common gnome-dictionary glabels-data totem-common easytag meld
        bijiben mate-user-guide mate-applets-common mate-calc-common atril-common aisleriot
        anjuta-common frogr-data font-manager-common file-roller cheese-common ocrfeeder
        simple-scan brasero-common gbrainy modem-manager-gui-help geary kupfer gnome-music ghex
        baobab accerciser vinagre gnome-clocks polari hamster-time-tracker
        """),
    Source("gnucash-guide", "documents", "manuals", "gnucash-docs"),
    Source("kde-help", "documents", "manuals", """
        kdoctools5 krusader kmymoney-common plasma-desktop-data kate5-data kio-extras-data kmail
        plasma-workspace-data kio kphotoalbum konqueror umbrello-data partitionmanager kwin-data
        tellico-doc khelpcenter kturtle kile-doc step kdf kaddressbook kleopatra kcalc
        kalgebra-common kdenlive-data akregator konversation-data ktorrent-data kget rocs kmplot
        kig cantor skrooge-common parley-data okteta ktouch-data korganizer kontact konsole
        kexi-data kalarm okular gwenview kolourpaint kde-spectacle k3b-i18n dolphin ark kgpg
        kgeography-data
        """),
    Source("program-manuals", "documents", "manuals", """
        apache2-doc kicad-doc-de kicad-doc-en solfege-doc
        """),
    Source("libreoffice", "messages", "libreoffice_messages", "src:libreoffice", "translations"),
    Source("gnome-messages", "messages", "catalogs", """
        gnome-control-center-data libgtk-3-common libglib2.0-data evolution-common
        gnumeric-common gnucash-common gimp-data inkscape nautilus-data network-manager
        shotwell-common rhythmbox-data simple-scan evince-common totem-common gedit-common
        gnome-boxes deja-dup orca gparted homebank-data grisbi-common gramps dia-common
        geany-common pidgin-data claws-mail-i18n bleachbit virt-manager lyx-common audacity-data
        ardour-data darktable denemo-data vlc-l10n mate-control-center-common caja-common
        xfce4-settings xfce4-session thunar-data synaptic cinnamon-l10n anjuta-common
        """),
    Source("kde-messages", "messages", "catalogs", """
        plasma-workspace-data kdevelop-l10n plasma-desktop-data kdepim-runtime
        kdeplasma-addons-data kdepim-addons kate5-data calligra-data kinfocenter kwin-data
        plasma-nm kdeconnect kio-extras-data okular kmail konqueror kf5-messagelib-data
        krita-l10n digikam-data kdenlive-data kmymoney-common skrooge-common labplot-data kile
        kleopatra dolphin marble-data k3b-i18n tellico-data kalzium-data parley-data step
        kexi-data korganizer kaddressbook akregator konsole krusader partitionmanager
        umbrello-data powerdevil-data kgpg
        """),
    Source("tool-messages", "messages", "catalogs", """
        gcc-12-locales binutils-common coreutils gnupg-l10n git bash tar grub-common
        util-linux-locales aptitude-common apt dpkg dpkg-dev debconf-i18n gettext make
        postgresql-15 postgresql-client-15 sssd-common cryptsetup-bin e2fsprogs libparted2 wget
        lvm2 libc-l10n libvirt-l10n mutt texinfo r-base-core bison python3-django nano mc-data
        findutils sed grep gawk diffutils passwd sudo apparmor needrestart popularity-contest
        reportbug recode wdiff man-db xz-utils
        """),
    Source("games-messages", "messages", "catalogs", """
        wesnoth-1.16-data freeciv-data freedroidrpg-data
        """),
    Source("freedict", "lexicon", "freedict", "dict-freedict-eng-deu"),
)  # fmt: skip

document.querySelector('#starting')?.append(' ');

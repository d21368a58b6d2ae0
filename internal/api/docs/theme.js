// The colours follow the choice on the other pages, or the system.
const root = document.documentElement;
const system = matchMedia('(prefers-color-scheme: dark)');
const paint = () => root.classList.toggle('dark-mode', root.dataset.theme === 'dark' || (root.dataset.theme === 'system' && system.matches));
system.addEventListener('change', paint);
paint();
